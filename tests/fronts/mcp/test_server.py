"""`ebb mcp` as clients see it: the official client, over real pipes, with a session on disk."""

import os
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters

from ebbtide.core.tool_calls import READ_TOOL, RECALL_TOOLS, SEARCH_TOOL
from ebbtide.fronts.mcp.server import RecallServer
from ebbtide.runtime import Context
from ebbtide.store import open_store
from fronts.proxy.proxy_runner import identify
from postgres_server import MEMBER, OWNER
from runtime.sessions import body, context, loop, run
from store import stores

PROGRAM = ["-m", "ebbtide.fronts.cli.main", "mcp"]


def server(home, *args, cwd=None, **environ):
    env = {**os.environ, "EBB_HOME": str(home), "HOME": str(home), **environ}
    parameters = StdioServerParameters(command=sys.executable, args=[*PROGRAM, *args], env=env, cwd=cwd or home)
    return Client(parameters, read_timeout_seconds=240)


async def asked(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    return content.text, bool(result.is_error)


def talk(home, session, text, project=None):
    """A session of the project that is `home` itself, unless another is named."""
    project = os.path.realpath(home) if project is None else project
    context = Context(store=home, session=session, project=project)
    context.prepare(body([{"role": "user", "content": text}]))
    return context


async def test_a_client_lists_searches_and_reads_a_session(tmp_path):
    messages = loop(24)
    run(context(store=tmp_path, session="nightly"), messages)  # without a project: it has to be named

    async with server(tmp_path, "--session", "nightly") as client:
        tools = (await client.list_tools()).tools
        answer, failed = await asked(client, SEARCH_TOOL, query="src/f3.py")
        page, _ = await asked(client, READ_TOOL, handle="t3.txt", start=0, end=200)

    assert tuple(tool.name for tool in tools) == RECALL_TOOLS
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert tools[0].input_schema["required"] == ["query"]
    assert not failed
    assert "result of Read src/f3.py; message 8" in answer
    assert messages[8]["content"][0]["content"][:200] in page


async def test_errors_are_results_and_the_server_continues(tmp_path):
    talk(tmp_path, "s", "a needle")

    async with server(tmp_path) as client:
        refused, failed = await asked(client, READ_TOOL, handle="/etc/passwd")
        answer, _ = await asked(client, SEARCH_TOOL, query="needle")

    assert failed
    assert "not a handle of this session" in refused
    assert "a needle" in answer


async def test_without_a_name_each_call_uses_the_newest_session(tmp_path):
    async with server(tmp_path) as client:
        nothing, failed = await asked(client, SEARCH_TOOL, query="needle")
        talk(tmp_path, "one", "needle of the first")
        first, _ = await asked(client, SEARCH_TOOL, query="needle")
        talk(tmp_path, "two", "needle of the second")
        (first_log,) = tmp_path.rglob("one.jsonl")
        os.utime(first_log, (1, 1))
        second, _ = await asked(client, SEARCH_TOOL, query="needle")

    assert failed
    assert "this project has no session yet" in nothing
    assert "first" in first
    assert "second" in second


def told_by_the_proxy(home, key, secret, header="x-api-key"):
    """A session as the proxy keeps it for whoever sends this key."""
    value = f"Bearer {key}" if header == "authorization" else key
    asked_by = identify("anthropic", "/v1/messages", {header: value}, body([{"role": "user", "content": secret}]))
    return talk(home, asked_by.identity.session, secret, asked_by.identity.project)


async def test_only_sessions_of_the_current_project_are_served(tmp_path):
    """Newer sessions of a tenant of the proxy, of another project, and of none are not told."""
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here / ".git", here / "src", other):
        folder.mkdir(parents=True)
    talk(tmp_path, "mine", "needle of my own", os.path.realpath(here))
    told_by_the_proxy(tmp_path, "key-of-another", "needle of a tenant")
    talk(tmp_path, "theirs", "needle of another project", os.path.realpath(other))
    talk(tmp_path, "loose", "needle of no project", "")

    async with server(tmp_path, cwd=here / "src") as client:
        answer, _ = await asked(client, SEARCH_TOOL, query="needle")
    async with server(tmp_path, cwd=tmp_path) as client:
        nothing, failed = await asked(client, SEARCH_TOOL, query="needle")

    assert "needle of my own" in answer
    assert not [text for text in ("tenant", "another project", "no project") if text in answer]
    assert failed
    assert "needle" not in nothing
    assert "theirs" not in nothing


async def test_a_name_opens_no_session_of_another_project_or_tenant(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    proxied = told_by_the_proxy(tmp_path, "key-of-another", "needle of a tenant")
    talk(tmp_path, "theirs", "needle of another project", os.path.realpath(other))
    talk(tmp_path, "loose", "needle of no project", "")
    answers = {}
    for name, more in (
        ("theirs", []),
        ("loose", []),
        (proxied._log.session, []),
        ("theirs", ["--project", str(other)]),
    ):
        async with server(tmp_path, "--session", name, *more) as client:
            answers[name, *more] = await asked(client, SEARCH_TOOL, query="needle")

    texts = [("needle of" in text, failed) for text, failed in answers.values()]
    assert texts == [(False, True), (True, False), (False, True), (True, False)]


@pytest.mark.parametrize("header", ["x-api-key", "authorization", "api-key", "x-goog-api-key"])
async def test_sessions_of_the_proxy_are_read_with_the_key_of_their_tenant_alone(tmp_path, header):
    told_by_the_proxy(tmp_path, "key-of-mine", "needle of mine", header)
    told_by_the_proxy(tmp_path, "key-of-another", "needle of a tenant", header)

    async with server(tmp_path, "--credential-env", "MY_KEY", MY_KEY="key-of-mine") as client:
        answer, _ = await asked(client, SEARCH_TOOL, query="needle")
    async with server(tmp_path, "--credential-env", "MY_KEY", MY_KEY="key-of-nobody") as client:
        nothing, failed = await asked(client, SEARCH_TOOL, query="needle")

    assert "needle of mine" in answer
    assert "tenant" not in answer
    assert failed
    assert "needle" not in nothing


async def test_a_role_that_sees_one_tenant_at_a_time_finds_the_sessions_of_a_key_in_a_database(tmp_path):
    url = stores.server().database_at(tmp_path).replace(OWNER, MEMBER)
    told_by_the_proxy(url, "key-of-mine", "needle of mine")
    told_by_the_proxy(url, "key-of-another", "needle of a tenant")

    async with server(tmp_path, "--credential-env", "MY_KEY", "--store", url, MY_KEY="key-of-mine") as client:
        answer, _ = await asked(client, SEARCH_TOOL, query="needle")

    assert "needle of mine" in answer
    assert "tenant" not in answer


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--credential-env", "EBB_NO_SUCH_KEY"], "the variable EBB_NO_SUCH_KEY is not set"),
        (["--project", "proxy-0123456789ab"], "--credential-env"),
        (["--project", ".", "--credential-env", "HOME"], "use either --credential-env or --project"),
    ],
)
def test_bad_options_are_refused_before_serving(tmp_path, arguments, why):
    environ = {**os.environ, "EBB_HOME": str(tmp_path)}
    told = subprocess.run([sys.executable, *PROGRAM, *arguments], env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL)  # fmt: skip

    assert (told.returncode, told.stdout) == (2, "")
    assert why in told.stderr


async def test_a_model_reads_its_own_session_also_while_a_sub_agent_works(tmp_path):
    parent = talk(tmp_path, "own", "needle of the parent")
    child = parent.child("search")
    child.prepare(body([{"role": "user", "content": "needle of the child"}]))
    (log,) = tmp_path.rglob("own.jsonl")
    os.utime(log, (1, 1))

    async with server(tmp_path) as client:
        answer, _ = await asked(client, SEARCH_TOOL, query="needle")

    assert "needle of the parent" in answer


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", "~nouser", "../../etc/passwd", "a" * 10_000])
def test_odd_arguments_are_answered(tmp_path, odd):
    talk(tmp_path, "s", "a needle")
    server = RecallServer(stores=[open_store(tmp_path)], projects=frozenset((os.path.realpath(tmp_path),)))

    for tool, key in ((SEARCH_TOOL, "query"), (READ_TOOL, "handle")):
        text, failed = server.answer(tool, {key: odd})
        assert failed or "Nothing in this session's record matches" in text
        text.encode()


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


def test_the_command_is_listed():
    told = subprocess.run([sys.executable, *PROGRAM[:2], "--help"], capture_output=True, text=True)

    assert "recall as an MCP server" in told.stdout
