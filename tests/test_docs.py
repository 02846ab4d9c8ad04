"""What the pages say is so: their code runs, their commands parse or run, their links lead somewhere.

The Python of a page runs in one namespace, in an empty directory. In a block marked `console run` every `$ ebb` line runs
too, between the Python around it; in all others it must parse, by the command's own parser. TOML is a configuration, and
our reader must take it; JSON is JSON. No block is of another kind. One marked `python model` wants a provider, and runs
before a real model in `tests/fronts/sdk/test_local_model.py`; one marked with an environment of a framework runs there, in
`tests/frameworks/test_page.py`.
"""

import json
import re
import runpy
import shlex
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path

import pytest
from scripts.draw_explanations import DRAWINGS
from scripts.reference import parsers

import ebbtide
from ebbtide import Context, load
from ebbtide.config import load_settings
from ebbtide.example import path
from ebbtide.fronts.cli.command_line import command_line
from ebbtide.fronts.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```([a-z -]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FRAMEWORKS = {f"python {file.stem}" for file in (Path(__file__).parents[1] / "requirements/frameworks").glob("*.txt")}
KINDS = {*FRAMEWORKS, "python", "python model", "console", "console run", "sh", "text", "toml", "json", ""}
TYPED = re.compile(r"^ *(?:\$ )?(?:\w+=\S+ )*(?:\S+ mcp add \S+ -- )?(ebb(?: [a-z-]+(?: .*?)?| -.*?)?)(?: {3,}.*)?$")
"""A line of plain text that somebody is to type, but for a remark behind it. `ebb run: 12 requests` is what they read."""
PARSERS = parsers()
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def named(path):
    return str(path.relative_to(ROOT))


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(text):
    """The arguments of every `ebb` in a line: behind a prompt, at the end of a chain, before a redirection."""
    for line in text.splitlines():
        for part in re.split(r"&&|\||;", line.removeprefix("$ ")):
            words = shlex.split(re.split(r"\s\d?[<>]", part)[0], comments=True)
            if words and Path(words[0]).name == "ebb":
                yield words[1:]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(kind == "python" for kind, _ in blocks(page))], ids=named
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EBB_HOME", str(tmp_path / "ebb-home"))
    names = {"__name__": "page"}
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, named(page), "exec"), names)
        if kind == "console run":
            codes = [(words, main(words)) for words in commands(text)]
            assert codes
            assert not [words for words, code in codes if code], capfd.readouterr().err


@pytest.mark.parametrize("page", [page for page in PAGES if page != ROOT / "README.md"], ids=named)
def test_only_the_readme_has_code_that_needs_a_model(page):
    """Elsewhere nobody would run it."""
    assert "python model" not in {kind for kind, _ in blocks(page)}


def typed(kind, text):
    """The arguments of every `ebb` that a block tells somebody to type."""
    if kind in ("console", "console run", "sh"):
        return commands(text)
    lines = [found[1].removesuffix(" &") for found in map(TYPED.match, text.splitlines()) if found]
    return [words for line in lines for words in commands(line)] if kind in ("text", "") else []


def parsed(words):
    """By the command's own parser: a front's is not that of `ebb`."""
    own = PARSERS.get(words[0]) if words else None
    try:
        return own.parse_args(words[1:]) if own else command_line().parse_args(words)
    except SystemExit as left:
        if left.code:
            pytest.fail(f"ebb {shlex.join(words)}")
    return None


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_on_a_page_parses(page):
    for kind, text in blocks(page):
        for words in typed(kind, text):
            parsed(words)


@pytest.mark.parametrize("name", PARSERS)
def test_every_example_of_a_help_text_parses(name):
    examples = typed("text", PARSERS[name].epilog or "")

    assert [words for words in examples if words[0] == name]
    for words in examples:
        parsed(words)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_block_of_a_page_escapes(page):
    """Each is of a kind that is looked at here, and none is indented or marked so that it would not be found."""
    fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.lstrip().startswith("```")]

    assert len(fences) == 2 * len(blocks(page))
    assert {kind for kind, _ in blocks(page)} <= KINDS


@pytest.mark.parametrize("page", [page for page in PAGES if "```toml" in page.read_text(encoding="utf-8")], ids=named)
def test_every_configuration_on_a_page_is_accepted(page, tmp_path):
    for text in [text for kind, text in blocks(page) if kind == "toml"]:
        file = tmp_path / "config.toml"
        file.write_text(text, encoding="utf-8")

        assert load_settings(environ={"EBB_CONFIG": str(file)}, cwd=tmp_path, home=tmp_path).policy()


@pytest.mark.parametrize("page", [page for page in PAGES if "```json" in page.read_text(encoding="utf-8")], ids=named)
def test_every_document_on_a_page_is_json_and_what_it_starts_parses(page):
    for document in [json.loads(text) for kind, text in blocks(page) if kind == "json"]:
        for server in document.get("mcpServers", {}).values():
            assert server["command"] == "ebb"
            assert parsed(server["args"])


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]

    assert not [link for link in links if not (page.parent / link).exists()]


def test_the_overview_and_the_menu_lead_to_every_page():
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} - {"index.md"}
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]

    assert pages - set(LINK.findall((docs / "index.md").read_text(encoding="utf-8"))) == set()
    assert pages - set(re.findall(r"[\w/-]+\.md", menu)) == set()


@pytest.mark.parametrize(("window", "why"), [("120k", "old tool result"), ("64k", "replaced by collected facts")])
def test_the_readmes_command_fits_the_example(window, why, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)

    assert main(["fit", "--example", "--window", window, "--explain"]) == 0
    output = capfd.readouterr()
    assert output.out.startswith('{"model":')
    assert why in output.err


def test_the_context_of_the_example_is_a_grid_and_a_table(capfd):
    """R241."""
    assert main(["context", "--example", "--window", "200k"]) == 0
    told = capfd.readouterr().out

    assert "claude-sonnet-4-6" in told
    assert "Estimated usage by category" in told
    assert len(re.findall("[■▒·] ", told)) >= 100


def test_ci_runs_the_readmes_test_command_and_nothing_else():
    (command,) = [text.strip() for kind, text in blocks(ROOT / "README.md") if "scripts.check" in text]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    assert script[-1] == command
    assert all(line.startswith(("#", "set ", "cd ")) for line in script[:-1])


def test_the_picture_and_the_readmes_figures_are_what_the_script_measures():
    drawing = runpy.run_path(str(ROOT / "scripts" / "draw_session.py"))
    session = drawing["replayed"]()
    raw, fitted = f"{session.raw[-1] / 1000:.0f}k", f"{session.fitted[-1] / 1000:.0f}k"
    told = f"{raw} to {fitted} tokens in the last request, {len(session.batches)} batches in {len(session.raw)} calls"

    assert drawing["drawn"](session) == drawing["TARGET"].read_text(encoding="utf-8")
    assert told in (ROOT / "README.md").read_text(encoding="utf-8")


def rows(page):
    """From a name to what its row says, for the tables of a page."""
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    found = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*) \|$", text, re.MULTILINE)
    return {name: said for names, said in found for name in re.findall(r"`(\w+)`", names)}


def test_every_event_and_every_record_with_its_fields_is_described(tmp_path):
    """Of a session that offloads, clears, folds, asks in vain, and is undone; of the rest, that it is named."""
    events = []
    context = Context(window=64_000, store=tmp_path, session="s", on_event=events.append, summarizer=lambda _: "No.")
    for call in islice(load(path()).requests(), 40):
        context.prepare(call.request)
    context.record({"role": "assistant", "content": "Well.", "usage": {"input_tokens": 9000, "output_tokens": 2}})
    context.compact()
    context.undo()
    context.redo()
    context.child("child").finish("done")
    told, records = rows("api.md"), [json.loads(line) for log in tmp_path.rglob("*.jsonl") for line in log.open("rb")]
    folders = [ROOT / "src" / "ebbtide" / name for name in ("runtime", "compaction", "recall")]
    source = "".join(file.read_text(encoding="utf-8") for folder in folders for file in folder.glob("*.py"))

    for event in events:
        assert not [name for name in event.fields if f"`{name}`" not in told[event.kind]], event.kind
    assert {"edit", "folded", "microcompact", "result_persisted"} <= {event.kind for event in events}
    assert set(re.findall(r'(?:Event\(kind=|\btell\(|_event\()\s*"(\w+)"', source)) <= set(told)
    told, ours = rows("records.md"), [record for record in records if record["type"] == "ebb"]
    for record in ours:
        kind = record.get("kind") or record["store"]
        assert not [name for name in record if f"`{name}`" not in told[kind] + "`type``kind``store``ebbsum`"], kind
    assert {"plan", "turn", "answer", "usage", "undo", "child"} <= {record.get("kind") for record in ours}


@pytest.mark.parametrize("name", ebbtide.__all__)
def test_every_public_name_has_its_place_in_the_reference_with_all_that_is_public_of_it(name):
    page = BLOCK.sub("", (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8"))
    told = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", page))))
    found = getattr(ebbtide, name)
    # What every exception has is Python's, and a field that is not even printed is our own.
    parts = set(dir(found)) - set(dir(Exception)) if isinstance(found, type) else set()
    ours = {one.name for one in fields(found) if not one.repr} if is_dataclass(found) else set()

    assert name in told
    assert {part for part in parts - ours if not part.startswith("_")} <= told


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_what_the_code_and_the_example_give_and_a_page_shows_it(name):
    """Where it is not: `python -m scripts.draw_explanations`."""
    assert DRAWINGS[name]() == (ROOT / "docs" / "images" / name).read_text(encoding="utf-8")
    assert [page for page in PAGES if f"images/{name})" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_the_example_runs_and_is_short(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")

    assert capsys.readouterr().out
    assert len(example.read_text(encoding="utf-8").splitlines()) <= 40


def test_there_are_few_examples():
    assert 1 <= len(EXAMPLES) <= 7


def test_the_tree_of_the_architecture_is_the_tree():
    """Every file and folder that it names exists, and no package is missing."""
    src = ROOT / "src" / "ebbtide"
    tree = next(text for kind, text in blocks(ROOT / "ARCHITECTURE.md") if text.startswith("src/ebbtide/"))
    files = {path.name for folder in (src, ROOT / "scripts") for path in folder.rglob("*.py")}
    packages = {path.parent.name for path in src.glob("*/__init__.py")}

    assert set(re.findall(r"[\w-]+\.py", tree)) <= files
    assert packages <= set(re.findall(r"([\w-]+)/", tree))


FIRST_RUNS_ELSEWHERE = {
    "docs/how-to/gateways.md": "tests/fronts/proxy/test_gateway.py",
    "docs/explanation/clients.md": "tests/clients/test_client_table.py",
    "docs/how-to/team.md": "tests/fronts/proxy/test_team.py",
    "README.md": "tests/clients/test_real_clients.py",
    "docs/how-to/chat.md": "tests/fronts/chat",
    "docs/how-to/inspect.md": "tests/fronts/ui/test_command.py",
    "docs/how-to/mcp.md": "tests/fronts/mcp",
    "docs/how-to/proxy.md": "tests/fronts/proxy",
    "docs/how-to/run.md": "tests/fronts/run",
    "docs/how-to/sdk.md": "tests/fronts/sdk",
    "docs/how-to/write-a-wire.md": "tests/wire",
    "docs/explanation/faults.md": "tests/test_fault_campaign.py",
    "docs/explanation/laws.md": "tests/laws",
    "docs/explanation/numbers.md": "tests/test_docs.py",
    "docs/explanation/security.md": "tests/store",
    "docs/index.md": "tests/test_package.py",
    "docs/tutorial.md": "tests/test_package.py",
}
"""Pages whose first example starts a server or a real client, or installs: where that is tested."""
LISTINGS = {"docs/explanation/default.md", "docs/reference/model-texts.md", "docs/reference/records.md"}
"""Pages whose first block shows a text that nobody types."""


def test_the_first_example_of_every_page_runs_in_a_test():
    """Here if it is Python, a configuration, or a command without a server; else in the test that the table names."""
    unproved = []
    for page in PAGES:
        kinds = [kind for kind, _ in blocks(page)]
        is_listing = named(page) in LISTINGS or (page.parent == ROOT and page.name != "README.md")
        if not kinds or is_listing or kinds[0] in {*FRAMEWORKS, "python", "console run", "toml", "json"}:
            continue
        if not (ROOT / FIRST_RUNS_ELSEWHERE.get(named(page), "none")).exists():
            unproved.append(named(page))

    assert unproved == []
    assert not [page for page in FIRST_RUNS_ELSEWHERE if not blocks(ROOT / page)]


def test_every_guide_has_an_example():
    guides = [page for page in PAGES if page.parent.name == "how-to"]

    assert [named(page) for page in guides if not blocks(page)] == []
