"""How things look. Every function takes values and returns something rich can print; nothing here prints.

What a model, a file or a command wrote is made harmless first: it may not move the cursor, hide, or pose as a link.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, OverflowMethod, RenderableType, RenderResult
from rich.markdown import Heading, Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.types import Edit, Usage
from ebbtide.display import WindowUsage, draw_window, make_visible, one_line, round_number, short_number
from ebbtide.fronts.chat.permission import Question
from ebbtide.fronts.chat.providers import Call
from ebbtide.fronts.chat.tools import Outcome
from ebbtide.money import UsageBill
from ebbtide.recall.search import Hit, Page
from ebbtide.runtime.report import Event as EngineEvent
from ebbtide.store import SessionInfo

_SHOWN = 4  # lines of a result: who wants more, asks the agent or opens the file
_SAID = 20  # lines of what the person said: a paste would push the conversation off the screen
_WIDE = 2_000  # characters of it, where the lines are long
_TOLD_BY = ("command", "path", "pattern", "title", "query", "handle", "task")
"""The argument that says most about a call, the first that is there."""


def window(shown: WindowUsage) -> RenderableType:
    return _Filled(shown)


class _Filled(NamedTuple):
    """What fills a window, by the width of the terminal when it is drawn."""

    window: WindowUsage

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from (Text.assemble(*row, no_wrap=True) for row in draw_window(self.window, width=options.max_width))


class _Heading(Heading):
    """On the left: a centred one is lost in a wide terminal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield Text("▍ ", style="cyan", end="").append_text(self.text)


class _Words(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading}


def words(text: str) -> RenderableType:
    """What the model said."""
    return Padding(_Words(make_visible(text), hyperlinks=False, code_theme="ansi_dark"), (0, 0, 1, 0))


def greeting(model: str, root: Path) -> RenderableType:
    return Padding(
        Text.assemble(("ebb chat", "bold"), f" · {one_line(model, 40)} · {one_line(str(root))} · /help"), (0, 0, 1, 0)
    )


def echo(text: str) -> RenderableType:
    """What the person said; of a paste the beginning."""
    told = make_visible(text[:_WIDE]).splitlines()[:_SAID]
    hidden = len(text.splitlines()) - len(told)
    more = f"\n… {pluralize(hidden, 'more line')}" if hidden > 0 else "\n… more" if len(text) > _WIDE else ""
    return Padding(Text.assemble(("> " + "\n".join(told), "bold"), (more, "dim")), (0, 0, 1, 0))


def notice(text: str, style: str = "yellow") -> RenderableType:
    return Text(f"※ {make_visible(text)}", style=style)


def call(one: Call) -> RenderableType:
    return Text.assemble(("● ", "cyan"), (one.name, "bold"), " ", (one_line(subject(one.given or {}), 100), "dim"))


def subject(given: Mapping[str, object]) -> str:
    named = next((given[key] for key in _TOLD_BY if given.get(key)), None)
    return str(named) if named is not None else json.dumps(dict(given), ensure_ascii=False) if given else ""


def outcome(one: Outcome, name: str) -> RenderableType:
    text = make_visible(one.text.rstrip())
    told = text.splitlines()
    most = 12 if name in ("edit", "todo") else _SHOWN
    more = [f"… {pluralize(len(told) - most, 'more line')}"] if len(told) > most else []
    # A person wants to read all of what went wrong; of what went right, one line is one line.
    how: OverflowMethod = "fold" if one.failed else "ellipsis"
    body = Text("\n".join([*told[:most], *more]), style="red" if one.failed else "dim", overflow=how)
    body.no_wrap = not one.failed
    beside = Table.grid(padding=0)
    beside.add_row(Text("  ⎿ ", style="dim"), body)
    return Padding(beside, (0, 0, 1, 0))


def question(asked: Question) -> StyleAndTextTuples:
    """For the line above the input: styles and words, as prompt_toolkit has them."""
    need = asked.need
    what = f"$ {make_visible(need.command)}" if need.kind == "run" else f"{need.tool} {one_line(str(need.path), 200)}"
    return [
        ("class:ask", f"\n May I? ({asked.reason})\n"),
        ("class:subject", f"   {what}\n"),
        ("class:key", " y "),
        ("", " once\n"),
        ("class:key", " a "),
        ("", f" always: {make_visible(asked.remembered)}\n"),
        ("class:key", " n "),
        ("", " no; or say what to do instead\n"),
    ]


def footer(
    model: str, mode: str, tokens: int, window: int, left: float, bill: UsageBill, hits: float, columns: int = 200
) -> str:
    """R240, and what it costs. On a narrow terminal in fewer words."""
    dollars = bill.dollars
    cost = f"${dollars:.4f}" if dollars is not None else f"{short_number(bill.usage.total)} tokens billed"
    planning = ["PLAN MODE"] if mode == "plan" else []
    whole = [
        one_line(model, 40),
        f"{short_number(tokens)}/{round_number(window)} tokens",
        f"Context left until auto-compact: {left:.0%}",
        cost,
        f"cache {hits:.0%}",
        *planning,
    ]
    told = " · ".join(whole)
    if len(told) < columns:
        return told
    return " · ".join(
        [f"{left:.0%} left", f"{short_number(tokens)}/{round_number(window)}", *planning, cost, one_line(model, 20)]
    )


def engine(event: EngineEvent) -> tuple[str, str]:
    """What the engine did, in words, and what to say while it does it. Empty where it is silent (R242)."""
    fields = event.fields
    match event.kind:
        case "fold_begins" if fields.get("trigger") != "manual":
            return "Context window filling up, compacting conversation...", "Compacting conversation..."
        case "fold_begins":
            return "", "Compacting conversation..."
        case "folded":
            before, after = _whole(fields.get("tokens_before")), _whole(fields.get("tokens_after"))
            sizes = f"{short_number(before)} → {short_number(after)}"
            told = f"Conversation compacted: {sizes} tokens. Old turns became a note;"
            return f"{told} your own messages and the newest turns stayed. /edits shows it, /undo takes it back.", ""
        case "fold_failed":
            return f"The summary was of no use ({fields.get('reason')}): facts stand for it.", ""
        case "edit" if fields.get("by") == "offload_input":
            saved = _whole(fields.get("saved"))
            return f"Your paste was put on disk ({short_number(saved)} tokens): the model reads it in parts.", ""
        case "fallback":
            return f"Nothing was taken out this time: {fields.get('reason')}", ""
        case "store":
            return f"{fields.get('message')}", ""
    return "", ""


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


# --- tables ------------------------------------------------------------------------------------------------------


def table(headings: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[int] = ()) -> RenderableType:
    """Where there is little room the last column takes more lines, and none is cut."""
    told = [[one_line(cell) for cell in row] for row in cells]
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(headings))
    for n, heading in enumerate(headings[:-1]):
        widest = max(map(cell_len, [heading, *(row[n] for row in told)]))
        made.add_column(heading, justify="right" if n in right else "left", no_wrap=True, min_width=widest)
    made.add_column(headings[-1], justify="right" if len(headings) - 1 in right else "left", overflow="fold")
    for row in told:
        made.add_row(*map(Text, row))
    return made


def edits(made: Sequence[Edit]) -> RenderableType:
    cells = [[str(n), edit.by, short_number(edit.saved), edit.reason] for n, edit in enumerate(made, 1)]
    return table(("#", "by", "saved", "why"), cells, right=(0, 2))


def sessions(found: Sequence[SessionInfo]) -> RenderableType:
    cells = [[one.session, one.modified[:16].replace("T", " "), str(one.messages), one.title] for one in found]
    return table(("session", "changed", "messages", "title"), cells, right=(2,))


def hits(found: Sequence[Hit]) -> RenderableType:
    shown: list[RenderableType] = []
    for hit in found:
        place = f"{hit.handle}  {hit.kind} {hit.name or hit.role}, message {hit.message}, line {hit.line}"
        shown += [Text(one_line(place), style="bold cyan"), Padding(Text(make_visible(hit.snippet)), (0, 0, 1, 2))]
    return Group(*shown)


def page(one: Page) -> RenderableType:
    more = f"\n… {pluralize(one.total - one.end, 'more character')}" if one.end < one.total else ""
    return Text(make_visible(one.text) + more)


def cost(bill: UsageBill, hit_rate: float) -> RenderableType:
    used: Usage = bill.usage
    told = [
        ("requests", str(len(bill.calls))),
        ("input, full price", f"{used.input:,}"),
        ("read from the cache", f"{used.cache_read:,}"),
        ("written to the cache", f"{used.cache_write:,}"),
        ("output", f"{used.output:,}"),
        ("cache hit rate", f"{hit_rate:.0%}"),
        ("cost", f"${bill.dollars:.4f}" if bill.dollars is not None else "no price known for this model"),
    ]
    return table(("", ""), told, right=(1,))
