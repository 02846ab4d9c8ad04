"""Names that other programs, stored logs and settings rely on: they stay, whatever happens inside the package.

`frozen_names.json` lists them. A test that fails here says which name is gone or new. Edit the list only where a change
is meant to be seen by users, and say so in the changelog. Everything is found through public names, the command line
and files on disk, so moving modules does not touch these tests; `ebbtide.passes` is the one package that is named.
Names that a short session cannot bring about are looked for among the string literals of the package.
"""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import urllib.request
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import ebbtide
from ebbtide.__main__ import main
from ebbtide.passes import PASSES
from ebbtide.store import open_store

FROZEN = json.loads(Path(__file__).with_name("frozen_names.json").read_text("utf-8"))
PACKAGE = Path(ebbtide.__file__).parent
COMMANDS_WITH_JSON = {
    "context": ["context", "--example"],
    "delete": ["delete", "deletable", "--yes"],
    "diff": ["diff", "--example"],
    "doctor": ["doctor"],
    "explain": ["explain", "--example"],
    "gc": ["gc", "--dry-run"],
    "recall": ["recall", "gauge", "--session", "frozen"],
    "recall --read": ["recall", "--read", "call0.txt", "--session", "frozen"],
    "redo": ["redo", "frozen"],
    "replay": ["replay", "--example", "--policies", "raw,default"],
    "report": ["report", "--example"],
    "report of a stored session": ["report", "frozen"],
    "sessions": ["sessions"],
    "show": ["show", "--example"],
    "undo": ["undo", "frozen"],
    "verify": ["verify", "--replan"],
    "why": ["why", "gauge", "--example"],
}


# --- a session in which every kind of record is written ---------------------------------------------------------------


class Provider(Exception):
    """A provider's refusal, as its SDK raises it."""

    status_code = 400

    def __str__(self):
        return "prompt is too long: 25000 tokens > 20000 maximum"


def conversation(steps):
    messages = [{"role": "user", "content": "Find out which gauge reads too high."}]
    for step in range(steps):
        call = {"type": "tool_use", "id": f"call{step}", "name": "Read", "input": {"file_path": f"src/gauge{step}.py"}}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"Step {step}."}, call]})
        text = f"gauge {step}: reading = level - datum\n" * (1_500 if step == 3 else 150)
        result = {"type": "tool_result", "tool_use_id": f"call{step}", "content": text}
        messages.append({"role": "user", "content": [result]})
    return messages


def body(messages):
    return {"model": "claude-opus-4-5", "max_tokens": 1000, "messages": messages}


def run_session(home):
    """Returns the events. The log has every kind of record that a library's user can bring about."""
    events = []
    context = ebbtide.Context(
        model="claude-opus-4-5",
        window=30_000,
        store=home,
        session="frozen",
        summarizer=lambda _: "The gauges were read one after another.",
        recall="tool",
        marks=True,
        on_event=events.append,
        clock=lambda: 1_000_000.0,
    )
    messages = conversation(20)
    for number in range(1, len(messages), 2):
        ready = context.prepare(body(messages[:number]))
        usage = {"input_tokens": 100 + ready.report.tokens_after, "output_tokens": 20}
        ready.record({"role": "assistant", "content": messages[number]["content"], "usage": usage})
    context.compact(body(messages))
    context.undo()
    context.redo()
    context.pin(context.recall("Find out which gauge")[0].handle)
    context.child("scout", window=9_000).finish("nothing there")
    context.prepare(body(messages))
    context.overflowed(Provider())
    context.reset_window()
    return events


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    home = tmp_path_factory.mktemp("frozen") / "store"
    events = run_session(home)
    (log,) = home.rglob("frozen.jsonl")
    return home, events, [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def key_paths(value, path=""):
    """All keys below a JSON value as dotted paths; what stands in lists is taken together."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield (inner := f"{path}.{key}".lstrip("."))
            yield from key_paths(part, inner)
    elif isinstance(value, list):
        for part in value:
            yield from key_paths(part, f"{path}[]")


def kind_of(record):
    if record["type"] != "ebb":
        return "message"
    return f"store {record['store']}" if "store" in record else record["kind"]


def record_keys(records):
    kinds = {}
    for record in records:
        own = {key: value for key, value in record.items() if key != "message"}
        kinds.setdefault(kind_of(record), set()).update(key_paths(own))
    return {kind: sorted(keys) for kind, keys in sorted(kinds.items())}


def test_log_records_keep_their_kinds_and_keys(session):
    assert record_keys(session[2]) == FROZEN["records"]


def test_the_index_of_sessions_keeps_its_keys(session):
    (path,) = session[0].rglob("sessions-index.json")
    assert sorted(set(key_paths(json.loads(path.read_text("utf-8"))))) == FROZEN["sessions_index"]


def test_events_keep_their_kinds_and_fields(session):
    kinds = {}
    for event in session[1]:
        kinds.setdefault(event.kind, set()).update(event.fields)
    assert {kind: sorted(names) for kind, names in sorted(kinds.items())} == FROZEN["events"]


# --- strings ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def literals():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


@pytest.mark.parametrize("group", sorted(FROZEN["literals"]))
def test_strings_that_are_read_outside_are_still_written(literals, group):
    assert [name for name in FROZEN["literals"][group] if name not in literals] == []


# --- the library ------------------------------------------------------------------------------------------------------


def public_names():
    return sorted(ebbtide.__all__)


def argument_names(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def context_members():
    """Public methods with their arguments; properties have none. The constructor is `__init__`."""
    members = {"__init__": argument_names(ebbtide.Context.__init__)}
    for name, member in vars(ebbtide.Context).items():
        if not name.startswith("_"):
            members[name] = argument_names(member) if callable(member) else []
    return dict(sorted(members.items()))


def value_fields():
    """Fields and properties of the values that are handed out."""
    found = {}
    for name in public_names():
        value = getattr(ebbtide, name)
        if not is_dataclass(value) or name in ("Policy", "Context"):
            continue
        names = {field.name for field in fields(value)} | set(vars(value))
        found[name] = sorted(one for one in names if not one.startswith("_"))
    return found


def test_public_names_stay():
    assert public_names() == FROZEN["public_names"]


def test_context_keeps_its_methods_and_arguments():
    assert context_members() == FROZEN["context"]


def test_values_keep_their_fields():
    assert value_fields() == FROZEN["values"]


def test_functions_keep_their_arguments():
    names = ("fit", "load", "preset", "recall_tools", "session", "wrap")
    functions = {name: argument_names(getattr(ebbtide, name)) for name in names}
    assert functions == FROZEN["functions"]


def test_presets_keep_their_names():
    assert list(ebbtide.PRESETS) == FROZEN["presets"]


def test_passes_keep_their_names_and_keyword_arguments():
    passes = {edit_pass.__name__: list(inspect.getfullargspec(edit_pass).kwonlyargs) for edit_pass in PASSES}
    assert dict(sorted(passes.items())) == FROZEN["passes"]


@pytest.mark.parametrize("wire", FROZEN["wires"])
def test_wires_keep_their_names(wire):
    ebbtide.Context(wire=wire)

    with pytest.raises(ebbtide.EbbtideError):
        ebbtide.Context(wire=f"{wire}_2")


# --- the command line -------------------------------------------------------------------------------------------------


def ebb(capsys, *arguments):
    code = main([*arguments])
    return code, capsys.readouterr().out


def help_names(text):
    """Options, exit codes and environment variables of a command's help."""
    described = text.split("\n\n", 1)
    environment = text.partition("\nenvironment:")[2].partition("\n\n")[0]
    codes = text.partition("\nexit codes:")[2].partition("\n\n")[0]
    usage = described[0] + text.partition("\noptions:")[2].partition("\nexamples:")[0]
    return {
        "options": sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", usage))),
        "exit_codes": sorted(set(re.findall(r"^ +(\d+)", codes, re.MULTILINE)), key=int),
        "environment": sorted(set(re.findall(r"\b[A-Z][A-Z_]*_[A-Z_]+\b", environment))),
    }


def test_commands_are_the_same(capsys):
    _, text = ebb(capsys, "--help")
    commands = re.findall(r"^  ([a-z]+)\b", text, re.MULTILINE)
    assert sorted(commands) == sorted(FROZEN["commands"])


@pytest.mark.parametrize("command", FROZEN["commands"])
def test_a_command_keeps_its_options_exit_codes_and_variables(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "100")
    code, text = ebb(capsys, command, "--help")
    assert code == 0
    assert help_names(text) == FROZEN["commands"][command]


@pytest.mark.parametrize("name", COMMANDS_WITH_JSON)
def test_json_output_keeps_its_fields(capsys, monkeypatch, session, tmp_path, name):
    monkeypatch.setenv("EBB_HOME", str(session[0]))
    monkeypatch.setenv("EBB_CONFIG", str(tmp_path / "empty.toml"))
    (tmp_path / "empty.toml").touch()
    if name == "redo":
        ebb(capsys, "undo", "frozen")
    if name == "delete":
        open_store(session[0]).open("deletable", now=1.0).commit([{"n": 1}], at=1.0)
    code, text = ebb(capsys, *COMMANDS_WITH_JSON[name], "--json")

    assert code in (0, 1)
    assert sorted(set(key_paths(json.loads(text)))) == FROZEN["json"][name]


# --- settings ---------------------------------------------------------------------------------------------------------


def test_every_configuration_key_is_accepted(capsys, monkeypatch, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("\n".join(FROZEN["configuration"]).replace("STORE", str(tmp_path)))
    monkeypatch.setenv("EBB_CONFIG", str(path))

    code, text = ebb(capsys, "context", "--example", "--json")
    assert code == 0
    assert json.loads(text)["window"] == 123_000


def test_an_unknown_configuration_key_is_refused(capsys, monkeypatch, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("frozen = 1\n")
    monkeypatch.setenv("EBB_CONFIG", str(path))

    assert ebb(capsys, "context", "--example", "--json")[0] == 2


# --- the proxy --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    home = tmp_path_factory.mktemp("proxy")
    command = [sys.executable, "-m", "ebbtide", "proxy", "--port", "0", "--announce", "--store", str(home / "store")]
    (home / "empty.toml").touch()
    environment = {**os.environ, "EBB_CONFIG": str(home / "empty.toml")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as running:
        try:
            yield json.loads(running.stdout.readline())["listening"]
        finally:
            running.kill()


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


def test_metrics_keep_their_names_and_labels(proxy):
    lines = [line for line in get(f"{proxy}/metrics").splitlines() if not line.startswith("#")]
    names = {re.sub(r'="[^"]*"', "", line.rpartition(" ")[0]) for line in lines}
    assert sorted(names) == FROZEN["metrics"]


@pytest.mark.parametrize("page", ["summary", "sessions"])
def test_pages_of_the_proxy_keep_their_fields(proxy, page):
    assert sorted(set(key_paths(json.loads(get(f"{proxy}/ebb/{page}"))))) == FROZEN["proxy"][page]
