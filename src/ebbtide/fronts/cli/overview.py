"""`ebb` alone: what it is, three lines to paste, and the commands by what one wants."""

from __future__ import annotations

from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.grammar import GROUPS, briefs

_WHAT = "Ebbtide keeps an LLM agent's conversation inside the model's window, and loses nothing."
_TRY = (
    ("ebb demo", "watch it, in 20 seconds: no key, no network"),
    ("ebb context --example --window 100k", "what fills a window; a FILE of yours, or --claude, instead"),
    ("ebb run -- claude", "an agent of yours, kept inside its window"),
)
_MORE = """\
Files may be request bodies (Anthropic, OpenAI Chat, OpenAI Responses) or sessions recorded by
Claude Code, Codex, pi, OpenCode, SWE-agent or a chat log.
'ebb COMMAND --help' explains a command, with examples. Something amiss? 'ebb doctor' looks."""


def show_overview() -> None:
    told = briefs()
    _line((_WHAT, "bold"))
    _line()
    _line(("Try it", "bold cyan"))
    screen.draw(screen.pairs(_TRY))
    for title, names in GROUPS.items():
        _line()
        _line((title, "bold cyan"))
        screen.draw(screen.pairs([(f"{name:<10}", told[name]) for name in names if name in told]))
    _line()
    for row in _MORE.splitlines():
        _line((row, "dim"))


def _line(*parts: tuple[str, str]) -> None:
    screen.draw(screen.styled(*(parts or (("", ""),))))
