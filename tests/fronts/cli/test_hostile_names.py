"""Names come from anywhere: of sessions, projects, models, tools, calls and files. No terminal obeys one of them."""

import json
import re

import pytest

from ebbtide.runtime import Context
from fronts.cli.terminal import PRESSED

EVIL = "=x\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2069\u200b\x7fend"
OBEYED = set("\x1b\x07\x9b\u202e\u2069\u200b\x7f")
FROM_RICH = re.compile(r"\x1b\[[\d;]*[mK]|\x1b\[\?25[hl]|\x1b\[\d*[AG]")


@pytest.fixture
def home(tmp_path):
    """A store, a recorded file and a request in which every name is hostile."""
    messages = [{"role": "user", "content": f"hello {EVIL}"}]
    for n in range(24):
        given = {"file_path": f"{EVIL}/{n}.py", EVIL: EVIL}
        use = {"type": "tool_use", "id": f"t{n}", "name": EVIL, "input": given}
        back = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"error: needle {EVIL} {n}\n" * 200}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]
    context = Context(store=tmp_path, session=EVIL, project=EVIL, model=EVIL, window=30_000, durable=False)
    for upto in (9, 29, 49):
        ready = context.prepare({"model": EVIL, "max_tokens": 100, "messages": messages[:upto]})
        ready.record({"role": "assistant", "model": EVIL, "content": [{"type": "text", "text": EVIL}], "usage": {}})
    talk = [{"role": "user", "content": EVIL}, {"role": "assistant", "content": EVIL, "model": EVIL}]
    (tmp_path / f"{EVIL}.json").write_text(json.dumps([{"id": EVIL, "messages": talk}]))
    (tmp_path / f"{EVIL}.bad").write_text("{")
    return tmp_path


FILE = f"{EVIL}.json"
COMMANDS = (
    ["sessions"],
    ["sessions", "--claude"],
    ["show", "last"],
    ["show", "last", "--raw"],
    ["show", FILE],
    ["diff", "last"],
    ["explain", "last"],
    ["explain", FILE],
    ["why", "needle", "last"],
    ["why", EVIL, "last"],
    ["context", "last"],
    ["context", FILE],
    ["report", "last"],
    ["report", "last", "--calls"],
    ["report", "last", "--csv", "edits"],
    ["report", "last", "--csv"],
    ["report", FILE],
    ["report", "last", "--html", f"{EVIL}.html"],
    ["recall", "needle"],
    ["recall", EVIL],
    ["verify"],
    ["verify", "--replan"],
    ["gc", "--dry-run", "--older-than", "1d"],
    ["doctor", "--model", EVIL],
    ["undo", "last"],
    ["redo", "last"],
    ["export", "last", "--format", "markdown"],
    ["export", "last", "--format", "jsonl"],
    ["export", "last", "--format", "anthropic"],
    ["export", "last", "-o", f"{EVIL}.out"],
    ["fit", FILE, *PRESSED, "--explain"],
    ["replay", FILE],
)
REFUSED = (
    ["show", EVIL + "x"],
    ["show", f"{EVIL}.bad"],
    ["context", f"{EVIL}.bad"],
    ["explain", f"/{EVIL}"],
    ["report", f"{EVIL}.bad"],
    ["report", "last", "--html", f"/{EVIL}/x"],
    ["export", "last", "-o", f"/{EVIL}/x"],
    ["recall", "x", "--session", EVIL + "x"],
    ["undo", "last", EVIL],
    ["diff", "last", "--edit", EVIL],
    ["show", "last", "--handle", EVIL],
    ["show", "last", "--item", EVIL],
    ["recall", "--read", EVIL],
    ["fit", f"{EVIL}.bad"],
    ["replay", f"{EVIL}.bad"],
    [EVIL],
    ["show", f"--{EVIL}"],
    ["sessions", "--limit", EVIL],
    ["gc", "--older-than", EVIL],
    ["fit", FILE, "--policy", EVIL],
    ["fit", FILE, "--window", EVIL],
    ["show", "last", "--store", f"{EVIL}.json"],
    ["proxy", "--upstream", EVIL],
    ["ui", f"/{EVIL}"],
    ["report", "last", "--price", EVIL],
)


def seen(ran):
    return FROM_RICH.sub("", ran.text + ran.err)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(EVIL, "EVIL"))
def test_hostile_names_are_written_out_by_every_command(ebb, home, words):
    shown, piped = ebb.on_a_terminal(*words), ebb(*words)

    assert shown.code in (0, 1), shown.err
    assert not set(seen(shown)) & OBEYED
    # A request that goes on to a provider is bytes, whatever is in it.
    assert not set(seen(piped) if words[0] != "fit" else piped.err) & OBEYED


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: " ".join(words).replace(EVIL, "EVIL"))
def test_hostile_names_are_written_out_by_every_refusal(ebb, home, words):
    result = ebb.on_a_terminal(*words)

    assert result.code != 0
    assert result.err
    assert not set(seen(result)) & OBEYED, words


@pytest.mark.parametrize("what", ["calls", "edits"])
def test_no_cell_of_a_table_for_a_spreadsheet_begins_as_a_formula(ebb, tmp_path, what):
    for name in ("=1+1", " =1+1", "\t@SUM(1)", "-2", "\u200b=1+1"):
        Context(store=tmp_path, session=name, model=name).prepare(
            {"model": name, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        )
        told = ebb("report", "last", "--csv", what).text.splitlines()[1:]
        cells = [cell.strip('"') for row in told for cell in row.split(",")]
        assert not [cell for cell in cells if cell[:1] in ("=", "@", "+")], name
        assert not [cell for cell in cells if cell[:1] == "-" and not re.fullmatch(r"-[\d.e-]+", cell)], name
