"""`ebb mcp` as clients see it: the official client, over real pipes, with a session on disk."""

import os
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters

from drive.sessions import body, context, loop, run
from ebbtide.core.recall import READ_TOOL, RECALL_TOOLS, SEARCH_TOOL
from ebbtide.drive import Context

PROGRAM = ["-m", "ebbtide.fronts.cli.main", "mcp"]


def server(home, *args):
    env = {**os.environ, "EBB_HOME": str(home), "HOME": str(home)}
    return Client(
        StdioServerParameters(command=sys.executable, args=[*PROGRAM, *args], env=env), read_timeout_seconds=240
    )


async def asked(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    return content.text, bool(result.is_error)


def talk(home, session, text):
    Context(store=home, session=session).prepare(body([{"role": "user", "content": text}]))


async def test_a_client_lists_searches_and_reads_a_session(tmp_path):
    messages = loop(24)
    run(context(store=tmp_path, session="nightly"), messages)

    async with server(tmp_path, "--session", "nightly") as client:
        tools = (await client.list_tools()).tools
        found, failed = await asked(client, SEARCH_TOOL, query="src/f3.py")
        page, _ = await asked(client, READ_TOOL, handle="t3.txt", start=0, end=200)

    assert tuple(tool.name for tool in tools) == RECALL_TOOLS
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert tools[0].input_schema["required"] == ["query"]
    assert not failed
    assert "result of Read src/f3.py; message 8" in found
    assert messages[8]["content"][0]["content"][:200] in page


async def test_errors_are_results_and_the_server_goes_on(tmp_path):
    talk(tmp_path, "s", "a needle")

    async with server(tmp_path) as client:
        refused, failed = await asked(client, READ_TOOL, handle="/etc/passwd")
        found, _ = await asked(client, SEARCH_TOOL, query="needle")

    assert failed
    assert "not a handle that this session recorded" in refused
    assert "a needle" in found


async def test_without_a_name_the_newest_session_is_asked_at_each_call(tmp_path):
    async with server(tmp_path) as client:
        nothing, failed = await asked(client, SEARCH_TOOL, query="needle")
        talk(tmp_path, "one", "needle of the first")
        first, _ = await asked(client, SEARCH_TOOL, query="needle")
        talk(tmp_path, "two", "needle of the second")
        os.utime(tmp_path / "projects" / "_" / "one.jsonl", (1, 1))
        second, _ = await asked(client, SEARCH_TOOL, query="needle")

    assert failed
    assert "there is no session yet" in nothing
    assert "first" in first
    assert "second" in second


def test_without_the_package_the_extra_is_named(tmp_path):
    """As if `mcp` were not installed: its import fails in a fresh interpreter."""
    code = "import sys; sys.modules['mcp'] = None; from ebbtide.fronts.cli.main import main; sys.exit(main(['mcp']))"
    told = subprocess.run([sys.executable, "-c", code], env={**os.environ, "EBB_HOME": str(tmp_path)}, capture_output=True, text=True, stdin=subprocess.DEVNULL)  # fmt: skip

    assert told.returncode == 2
    assert "pip install 'ebbtide[mcp]'" in told.stderr
    assert told.stdout == ""


def test_help_does_not_need_the_package():
    code = "import sys; sys.modules['mcp'] = None; from ebbtide.fronts.cli.main import main; sys.exit(main(['mcp', '--help']))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert told.returncode == 0
    assert "--session" in told.stdout


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_command_is_listed(arguments):
    told = subprocess.run([sys.executable, *PROGRAM[:2], *arguments], capture_output=True, text=True)

    assert "recall as an MCP server" in told.stdout
