"""`ebb audit`: replays your own sessions, the newest small ones first, and says what they would have cost."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide import screen
from ebbtide.argparse_errors import front_parser
from ebbtide.config import Settings, agent_directories, load_access, load_settings
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.preview import pluralize
from ebbtide.formats.agent_folders import find_agent_sessions
from ebbtide.fronts.audit.measure import AuditSession, Measured, add_up, measure_session
from ebbtide.fronts.audit.page import build_page
from ebbtide.fronts.audit.receipt import (
    billed_months,
    describe_receipt,
    read_prediction,
    receipt_as_dict,
    save_prediction,
)
from ebbtide.fronts.audit.tables import draw_audit
from ebbtide.prices import find_rates
from ebbtide.replay.sources import find_sessions, modified_at, size_of
from ebbtide.store import is_database, open_store, show_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.live import Live

_SMALL = 2 << 20
"""Bytes of a session that is replayed before larger ones, so that there are figures at once."""
_LIMIT = 100
_REDRAW = 0.2  # seconds


def main(arguments: Sequence[str]) -> int:
    """Says what your own sessions cost, what they would have cost with Ebbtide, and what would have been
    missing, by project and by month. Without PATH it finds the sessions of Claude Code, Codex, OpenCode, pi
    and the Gemini CLI on this machine. Each is replayed; no model is called and nothing is sent. The newest
    small sessions come first, so that there are figures within seconds; Ctrl-C shows those so far.

    examples:
      ebb audit
      ebb audit --html audit.html             a page to share: no prompts, paths, names or keys in it
      ebb audit ~/.claude/projects/-home-me-app --window 100k
      ebb audit --receipt                     what was predicted, against what was billed since

    exit codes:
      0  done, or stopped with figures to show
      1  an error in Ebbtide or on the disk
      2  bad input: the message says what

    environment:
      EBB_HOME            same as --store
      EBB_WINDOW          same as --window
      CLAUDE_CONFIG_DIR   Claude Code's folder; default ~/.claude
      CODEX_HOME          Codex's folder; default ~/.codex
      XDG_DATA_HOME       where OpenCode keeps its data; default ~/.local/share
      NO_COLOR            no colour, even on a terminal
    """
    args = command_line().parse_args(arguments)
    settings = load_settings(arguments={"window": args.window, "store": args.store})
    if args.receipt:
        if args.paths or args.html:
            raise BadRequest("--receipt reads your store alone; leave out PATH and --html")
        return _print_receipt(settings, as_json=args.json)
    find_rates("claude-sonnet-4-5")  # fails at once without the price table
    page = _open_page(args.html) if args.html else None
    sessions = _choose(args)
    audit = _Audit(settings, sessions)
    audit.run(shows_progress=sys.stderr.isatty() and not args.json)
    if args.json:
        screen.print_json(_as_dict(audit))
    else:
        screen.draw(draw_audit(audit.results))
    if page is not None:
        page.write_text(build_page(audit.results, time.time()), encoding="utf-8")
        screen.notify(f"wrote {page}")
    if audit.is_complete and not args.paths:
        save_prediction(_receipt_folder(settings), add_up(result.row for result in audit.results), time.time())
    return 0


def _open_page(name: str) -> Path:
    """Refuse a place that cannot be written to before the work, which takes minutes."""
    path = Path(name).expanduser()
    if path.is_dir() or not path.parent.is_dir():
        raise BadRequest(f"--html {name}: there is no folder {path.parent}, or it is a folder itself")
    return path


def _choose(args: argparse.Namespace) -> list[AuditSession]:
    sessions = _sessions_at(args.paths) if args.paths else _sessions_here()
    if not sessions:
        folders = ", ".join(map(str, agent_directories().values()))
        raise BadRequest(f"no sessions of a coding agent in {folders}; give a PATH, or try ebb replay --example")
    newest = sessions[: args.limit or None]
    if len(newest) < len(sessions):
        screen.notify(f"the newest {len(newest)} of {len(sessions):,} sessions; --limit 0 replays all")
    return sorted(newest, key=lambda session: (session.bytes > _SMALL, -session.modified))


def _sessions_here() -> list[AuditSession]:
    return [
        AuditSession(source=one.path, client=one.client, project=one.project, modified=one.modified, bytes=one.bytes)
        for one in find_agent_sessions(agent_directories())
    ]


def _sessions_at(names: Sequence[str]) -> list[AuditSession]:
    sessions = [
        AuditSession(source=source, modified=modified_at(source), bytes=size_of(source))
        for source in find_sessions(names)
    ]
    if not sessions:
        raise BadRequest(f"there is no recorded session in {', '.join(map(show_store, names))}")
    return sorted(sessions, key=lambda session: (-session.modified, str(session.source)))


@dataclass(slots=True)
class _Audit:
    settings: Settings
    sessions: Sequence[AuditSession]
    results: list[Measured] = field(default_factory=list)
    calls: int = 0
    _drawn: float = 0.0
    _live: Live | None = None

    @property
    def is_complete(self) -> bool:
        return len(self.results) == len(self.sessions)

    def run(self, *, shows_progress: bool) -> None:
        """Replay all sessions. Ctrl-C ends it with what is known by then, if anything is."""
        with self._progress(shows_progress):
            for session in self.sessions:
                try:
                    self.results.append(measure_session(session, self.settings.window_for, self._count_call))
                except KeyboardInterrupt:
                    if not any(result.row.calls for result in self.results):
                        raise
                    break
                self._draw(is_due=True)
        if not self.is_complete:
            screen.notify(f"stopped after {len(self.results)} of {pluralize(len(self.sessions), 'session')}")

    def _count_call(self) -> None:
        self.calls += 1
        self._draw(is_due=time.monotonic() - self._drawn >= _REDRAW)

    @contextmanager
    def _progress(self, shows: bool) -> Iterator[None]:
        if not shows:
            yield
            return
        from rich.live import Live  # noqa: PLC0415 - in a pipe nothing is drawn

        console = screen.console(sys.stderr)
        with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as self._live:
            self._draw(is_due=True)
            yield
        self._live = None

    def _draw(self, *, is_due: bool) -> None:
        if self._live is None or not is_due:
            return
        from rich.console import Group  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        self._drawn = time.monotonic()
        rest = len(self.sessions) - len(self.results)
        done = f"replaying {len(self.results)} of {len(self.sessions)} sessions, {self.calls:,} calls"
        self._live.update(Group(draw_audit(self.results, rest=rest), Text(), Text(done, style="dim")), refresh=True)


def _receipt_folder(settings: Settings) -> Path:
    """What was predicted from this machine's sessions stays here, also if new ones are in a database."""
    return load_access().config if is_database(settings.store) else Path(settings.store).expanduser()


def _print_receipt(settings: Settings, *, as_json: bool) -> int:
    prediction, months = read_prediction(_receipt_folder(settings)), billed_months(open_store(settings.store))
    if as_json:
        screen.print_json(receipt_as_dict(prediction, months))
    else:
        screen.print_text(*describe_receipt(prediction, months))
    return 0


def _as_dict(audit: _Audit) -> dict[str, object]:
    measured = [result for result in audit.results if result.row.calls]
    rows = [{"client": one.client, "project": one.project, "month": one.month, **asdict(one.row)} for one in measured]
    failed = [
        {"file": str(session.source), "reason": result.problem}
        for session, result in zip(audit.sessions, audit.results, strict=False)
        if result.problem
    ]
    total = add_up(result.row for result in measured)
    return {
        "complete": audit.is_complete,
        "total": {**asdict(total), "saved": total.saved, "saved_share": total.saved_share, "error": total.error},
        "sessions": rows,
        "failed": failed,
    }


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of sessions")
    return int(text)


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("audit", main)
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        metavar="PATH|URL",
        help="sessions, folders or databases of them; default: those on this machine",
    )
    add("--limit", metavar="N", type=_count, default=_LIMIT, help=f"the newest N sessions; 0 for all; default {_LIMIT}")
    add("--window", metavar="TOKENS", help="such as 200k; default: the model's window")
    add("--html", metavar="FILE", help="also write a page to share: figures only")
    add("--json", action="store_true", help="print JSON: each session, and the totals")
    add("--receipt", action="store_true", help="what was predicted, against what was billed since")
    add("--store", metavar="DIR|URL", help="where sessions are kept; default: EBB_HOME, else your data folder")
    return parser
