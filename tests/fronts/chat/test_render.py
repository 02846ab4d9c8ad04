"""What reaches the terminal is harmless, short, and says what the seeds' screens said."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from ebbtide.core.types import Usage
from ebbtide.fronts.chat import render
from ebbtide.fronts.chat.permission import PermissionQuestion, Rules
from ebbtide.fronts.chat.providers import ToolCall
from ebbtide.fronts.chat.screen import paragraph_end
from ebbtide.fronts.chat.tools import Action, ToolResult
from ebbtide.money import UsageBill
from ebbtide.runtime.report import Event
from ebbtide.window_usage import WindowUsage

EVIL = "fine\x1b[2J\x1b]8;;http://evil\x07click\x1b]8;;\x07\x9b31m\u202egnp"


def shown(what) -> str:
    out = io.StringIO()
    Console(file=out, width=100, force_terminal=True, color_system=None).print(what)
    return out.getvalue()


@pytest.mark.parametrize(
    "what",
    [
        render.reply(EVIL),
        render.reply(f"# {EVIL}\n\n```\n{EVIL}\n```\n\n[a link](http://evil)"),
        render.user_message(EVIL),
        render.tool_call(ToolCall(id="1", name="bash", arguments={"command": EVIL})),
        render.tool_result(ToolResult(text=EVIL), "bash"),
        render.notice(EVIL),
        render.table(("a",), [[EVIL]]),
    ],
)
def test_no_text_can_steer_the_terminal(what):
    told = shown(what)

    assert not {"\x1b]", "\x07", "\x9b", "\u202e", "\x1b[2J"} & {
        mark for mark in ("\x1b]", "\x07", "\x9b", "\u202e", "\x1b[2J") if mark in told
    }


def test_a_question_shows_the_whole_command_safely():
    asked = PermissionQuestion(
        action=Action(tool="bash", kind="run", command=f"rm -rf / {EVIL}"),
        reason="a command",
        rules=Rules(root=Path("/home/ada/app")),
    )

    told = "".join(text for _, text in render.permission_question(asked))

    assert "rm -rf /" in told
    assert "\x1b" not in told
    assert "exactly this command line" in told


def test_compactions_are_announced_in_claude_codes_words_and_clears_are_silent():
    def told(kind, **fields):
        return render.engine_event(Event(kind=kind, session="s", fields=fields))

    assert told("fold_begins", trigger="auto")[0] == "Context window filling up, compacting conversation..."
    assert told("fold_begins", trigger="manual") == ("", "Compacting conversation...")
    assert told("folded", tokens_before=150_000, tokens_after=31_000)[0].startswith(
        "Conversation compacted: 150.0k → 31.0k"
    )
    assert "paste" in told("edit", by="offload_input", saved=9_000)[0]
    for silent in ("microcompact", "edit", "result_persisted", "repair", "fold_asks"):
        assert told(silent, by="clear_results") == ("", "")


def test_the_footer_has_all_that_it_should():
    bill = UsageBill()
    bill.add("claude-sonnet-5", Usage(input=1_000_000))

    figures = {
        "model": "claude-sonnet-5",
        "mode": "plan",
        "tokens": 12_345,
        "window": 200_000,
        "context_left": 0.42,
        "bill": bill,
        "hit_rate": 0.875,
    }

    told = render.footer(**figures)

    assert told.startswith("claude-sonnet-5 · 12.3k/200k tokens · Context left until auto-compact: 42% · $")
    assert "cache 88%" in told
    assert told.endswith("PLAN MODE")
    narrow = render.footer(**figures, columns=70)
    assert narrow.startswith("42% left · 12.3k/200k · PLAN MODE")
    assert len(narrow) < 70
    bill.add("nobody-knows-this-model", Usage(input=5))
    assert "tokens billed" in render.footer(**figures)


def test_long_results_are_shown_by_their_head():
    told = shown(render.tool_result(ToolResult(text="\n".join(map(str, range(30)))), "bash"))

    assert "… 26 more lines" in told


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("", 0), ("a", 0), ("a\n", 0), ("a\n\nb", 3), ("\n\na\n", 0),
        ("```\na\n\nb\n", 0), ("```\na\n\nb\n```\nc", 13), ("```", 0),
    ],
)  # fmt: skip
def test_a_paragraph_ends_at_a_blank_line_outside_of_fences(text, end):
    assert paragraph_end(text) == end


@pytest.mark.parametrize("width", [40, 50, 80])
def test_a_table_on_a_narrow_terminal_wraps_its_last_column_and_cuts_nothing(width):
    out = io.StringIO()
    cells = [["/recall WORDS|HANDLE", "search all that was recorded, or read one text"], ["/exit", "leave"]]
    Console(file=out, width=width, force_terminal=True, color_system=None).print(render.table(("", ""), cells))
    told = out.getvalue()

    assert "…" not in told
    assert "/recall WORDS|HANDLE " in told
    assert all(word in told for word in cells[0][1].split())


def test_the_window_contents_are_listed_below_the_grid_when_there_is_no_room_beside_it():
    window = WindowUsage(
        model="m",
        size=100,
        tokens=5,
        is_billed=False,
        auto_at=80,
        system=1,
        tools=1,
        unrecorded=0,
        messages=(("user", 3),),
    )
    out = io.StringIO()
    Console(file=out, width=50, force_terminal=True, color_system=None).print(render.WindowGrid(window))
    rows = out.getvalue().splitlines()

    assert max(map(len, rows)) <= 50
    assert any(row.startswith("  ▒ Autocompact buffer: 20 tokens (20.0%)") for row in rows)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("one\ntwo", ["> one", "two"]),
        ("row\n" * 20, ["> row", *["row"] * 19]),
        ("row\n" * 21, ["> row", *["row"] * 19, "… 1 more line"]),
        ("x" * 2_001, [">", *["x" * 100] * 20, "… more"]),
    ],
)
def test_only_the_beginning_of_a_paste_is_echoed(said, told):
    assert [row.rstrip() for row in shown(render.user_message(said)).splitlines()] == [*told, ""]
