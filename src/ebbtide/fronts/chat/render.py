"""What the terminal shows. Every function takes values and returns something that rich can print; nothing prints here.

Text from a model, a file or a command is escaped first: it cannot move the cursor, hide, or pose as a link.
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

from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import Edit
from ebbtide.display import first_lines, make_visible, one_line, round_number, short_number
from ebbtide.fronts.chat.permission import PermissionQuestion
from ebbtide.fronts.chat.providers import ToolCall
from ebbtide.fronts.chat.tools import ToolResult
from ebbtide.money import UsageBill
from ebbtide.recall.search import Hit, Page
from ebbtide.runtime.report import Event as EngineEvent
from ebbtide.store import SessionInfo
from ebbtide.window_usage import WindowUsage, draw_window

_RESULT_LINES = 4
_LONG_RESULT_LINES = 12  # of tools whose result the user wants to read
_MESSAGE_LINES = 20  # of the user's message: a paste would push the conversation off the screen
_MESSAGE_WIDTH = 2_000  # characters of it, for long lines
_SUBJECTS = ("command", "path", "pattern", "title", "query", "handle", "task")
"""Arguments that describe a call best. The first one that is present is shown."""


class WindowGrid(NamedTuple):
    """Draws what fills the window, for the width of the terminal at that moment."""

    usage: WindowUsage

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from (Text.assemble(*row, no_wrap=True) for row in draw_window(self.usage, width=options.max_width))


class _Heading(Heading):
    """Left-aligned: a centred heading is hard to find in a wide terminal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield Text("▍ ", style="cyan", end="").append_text(self.text)


class _ReplyMarkdown(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading}


def reply(text: str) -> RenderableType:
    return Padding(_ReplyMarkdown(make_visible(text), hyperlinks=False, code_theme="ansi_dark"), (0, 0, 1, 0))


def greeting(model: str, root: Path) -> RenderableType:
    title = Text.assemble(("ebb chat", "bold"), f" · {one_line(model, 40)} · {one_line(str(root))} · /help")
    return Padding(title, (0, 0, 1, 0))


def user_message(text: str) -> RenderableType:
    """Show the start of a long message only."""
    rows = make_visible(text[:_MESSAGE_WIDTH]).splitlines()[:_MESSAGE_LINES]
    hidden = len(text.splitlines()) - len(rows)
    rest = f"\n… {pluralize(hidden, 'more line')}" if hidden > 0 else "\n… more" if len(text) > _MESSAGE_WIDTH else ""
    return Padding(Text.assemble(("> " + "\n".join(rows), "bold"), (rest, "dim")), (0, 0, 1, 0))


def notice(text: str, style: str = "yellow") -> RenderableType:
    return Text(f"※ {make_visible(text)}", style=style)


def tool_call(call: ToolCall) -> RenderableType:
    arguments: Mapping[str, object] = call.arguments or {}
    subject = next((arguments[key] for key in _SUBJECTS if arguments.get(key)), None)
    if subject is None:
        subject = json.dumps(dict(arguments), ensure_ascii=False) if arguments else ""
    return Text.assemble(("● ", "cyan"), (call.name, "bold"), " ", (one_line(str(subject), 100), "dim"))


def tool_result(result: ToolResult, tool: str) -> RenderableType:
    rows = make_visible(result.text.rstrip()).splitlines()
    limit = _LONG_RESULT_LINES if tool in ("edit", "todo") else _RESULT_LINES
    # Errors wrap, so that all of them can be read; of other results each line takes one row.
    overflow: OverflowMethod = "fold" if result.is_error else "ellipsis"
    body = Text("\n".join(first_lines(rows, limit)), style="red" if result.is_error else "dim", overflow=overflow)
    body.no_wrap = not result.is_error
    grid = Table.grid(padding=0)
    grid.add_row(Text("  ⎿ ", style="dim"), body)
    return Padding(grid, (0, 0, 1, 0))


def permission_question(question: PermissionQuestion) -> StyleAndTextTuples:
    """Return styles and text in prompt_toolkit's format, to be shown above the input."""
    action = question.action
    is_command = action.kind == "run"
    subject = f"$ {make_visible(action.command)}" if is_command else f"{action.tool} {one_line(str(action.path), 200)}"
    return [
        ("class:ask", f"\n May I? ({question.reason})\n"),
        ("class:subject", f"   {subject}\n"),
        ("class:key", " y "),
        ("", " once\n"),
        ("class:key", " a "),
        ("", f" always: {make_visible(question.grant_scope)}\n"),
        ("class:key", " n "),
        ("", " no; or type what to do instead\n"),
    ]


def footer(
    *,
    model: str,
    mode: str,
    tokens: int,
    window: int,
    context_left: float,
    bill: UsageBill,
    hit_rate: float,
    columns: int = 200,
) -> str:
    """The footer of R240 with the cost; shorter on a narrow terminal."""
    dollars, size = bill.dollars, f"{short_number(tokens)}/{round_number(window)}"
    cost = f"${dollars:.4f}" if dollars is not None else f"{short_number(bill.usage.total)} tokens billed"
    plan_mode = ["PLAN MODE"] if mode == "plan" else []
    left = f"Context left until auto-compact: {context_left:.0%}"
    text = " · ".join([one_line(model, 40), f"{size} tokens", left, cost, f"cache {hit_rate:.0%}", *plan_mode])
    if len(text) < columns:
        return text
    return " · ".join([f"{context_left:.0%} left", size, *plan_mode, cost, one_line(model, 20)])


def engine_event(event: EngineEvent) -> tuple[str, str]:
    """Return a message about what the engine did, and what the spinner says meanwhile. Both may be '' (R242)."""
    fields = event.fields

    def number(key: str) -> str:
        value = fields.get(key)
        return short_number(value if isinstance(value, int) else 0)

    match event.kind:
        case "fold_begins" if fields.get("trigger") != "manual":
            return "Context window filling up, compacting conversation...", "Compacting conversation..."
        case "fold_begins":
            return "", "Compacting conversation..."
        case "folded":
            sizes = f"{number('tokens_before')} → {number('tokens_after')} tokens"
            kept = "A summary replaced the old turns; your messages and the newest turns stayed."
            return f"Conversation compacted: {sizes}. {kept} /edits shows it, /undo reverts it.", ""
        case "fold_failed":
            return f"The summary could not be used ({fields.get('reason')}). Facts from the log replace it.", ""
        case "edit" if fields.get("by") == "offload_input":
            return f"Your paste was saved to disk ({number('saved')} tokens). The model reads it in parts.", ""
        case "fallback":
            return f"Nothing was removed this time: {fields.get('reason')}", ""
        case "store":
            return f"{fields.get('message')}", ""
    return "", ""


# --- tables ------------------------------------------------------------------------------------------------------


def table(headings: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[int] = ()) -> RenderableType:
    """On a narrow terminal the last column wraps; no column is cut."""
    rows = [[one_line(cell) for cell in row] for row in cells]
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(headings))
    for n, heading in enumerate(headings[:-1]):
        width = max(map(cell_len, [heading, *(row[n] for row in rows)]))
        grid.add_column(heading, justify="right" if n in right else "left", no_wrap=True, min_width=width)
    grid.add_column(headings[-1], justify="right" if len(headings) - 1 in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


def edits(active: Sequence[Edit]) -> RenderableType:
    cells = [[str(n), edit.by, short_number(edit.saved), edit.reason] for n, edit in enumerate(active, 1)]
    return table(("#", "by", "saved", "why"), cells, right=(0, 2))


def sessions(infos: Sequence[SessionInfo]) -> RenderableType:
    cells = [[info.session, info.modified[:16].replace("T", " "), str(info.messages), info.title] for info in infos]
    return table(("session", "changed", "messages", "title"), cells, right=(2,))


def hits(matches: Sequence[Hit]) -> RenderableType:
    rows: list[RenderableType] = []
    for hit in matches:
        title = f"{hit.handle}  {hit.kind} {hit.name or hit.role}, message {hit.message}, line {hit.line}"
        rows += [Text(one_line(title), style="bold cyan"), Padding(Text(make_visible(hit.snippet)), (0, 0, 1, 2))]
    return Group(*rows)


def page(text: Page) -> RenderableType:
    rest = f"\n… {pluralize(text.total - text.end, 'more character')}" if text.end < text.total else ""
    return Text(make_visible(text.text) + rest)


def cost(bill: UsageBill, hit_rate: float) -> RenderableType:
    usage = bill.usage
    cells = [
        ("requests", str(len(bill.calls))),
        ("input, full price", f"{usage.input:,}"),
        ("read from the cache", f"{usage.cache_read:,}"),
        ("written to the cache", f"{usage.cache_write:,}"),
        ("output", f"{usage.output:,}"),
        ("cache hit rate", f"{hit_rate:.0%}"),
        ("cost", f"${bill.dollars:.4f}" if bill.dollars is not None else "no price known for this model"),
    ]
    return table(("", ""), cells, right=(1,))
