"""`ebb explain`: each edit with its author, its reason, and what it is worth."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import TextIO

from ebbtide import example
from ebbtide.core.types import Edit
from ebbtide.fronts.cli import amounts, screen
from ebbtide.fronts.cli.history import History, Step
from ebbtide.fronts.cli.phrases import covered_told, moment, way_back
from ebbtide.fronts.cli.settings import add_json, add_max_bytes, add_policy, add_store, add_wire, settled
from ebbtide.fronts.cli.sources import histories
from ebbtide.fronts.cli.stored import LAST
from ebbtide.fronts.cli.teaching import Commands, command
from ebbtide.fronts.cli.worth import Worth, dollars, worth_of


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "explain",
        run,
        brief="each edit: who, what, why, tokens, money",
        about="""
            Lists what was taken out of a conversation, by which pass, for what reason, and what it saves. A stored
            session is read; a recorded session of another program is replayed call by call, in memory, under the
            policy you name; a request body is fitted once.

            "worth" is the estimated saving so far, in input tokens at full price, cache prices considered: cached
            tokens count for what reading them costs, and what an edit makes the provider write again is taken off.
            Dollars are shown only with --price: prices change, and none is built in.
        """,
        examples="""
            ebb explain request.json --window 32k
            ebb explain ~/.claude/projects/-home-me-app/4f1c.jsonl --window 100k
            ebb explain last --price 3
        """,
    )
    parser.add_argument("target", nargs="?", default=LAST, metavar="FILE|SESSION", help="default: the newest session")
    parser.add_argument("--example", action="store_true", help="use the session that comes with Ebbtide")
    parser.add_argument("--price", type=_dollars, metavar="USD", help="dollars for a million uncached input tokens")
    for more in (add_policy, add_wire, add_store, add_max_bytes, add_json):
        more(parser)


def _dollars(text: str) -> float:
    price = float(text)
    if not 0 <= price < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a price")
    return price


def run(args: argparse.Namespace) -> int:
    found = histories(str(example.path()) if args.example else args.target, settled(args), args.max_bytes)
    if args.json:
        screen.show_json([_as_dict(history, args.price) for history in found])
        return 0
    told = [history for history in found if history.steps or history.refusals]
    for history in told:
        if len(found) > 1:
            print(screen.line(f"=== {history.session}"))
        tell(history, history.steps, price=args.price)
    if not told:
        requests = sum(len(history.turns) for history in found)
        print(f"Nothing was taken out, in {requests} request{'s' * (requests != 1)}.")
    return 0


def tell(history: History, steps: Sequence[Step], *, price: float | None = None, file: TextIO | None = None) -> None:
    """The steps as tables, each under a line that sums it up."""
    columns = [("by", "left"), ("what", "left"), ("why", "left"), ("tokens", "right"), ("worth", "right")]
    for step in steps:
        worth = worth_of(history, step)
        rows = [[*told, amounts.short(saved), _units(gain, price)] for told, saved, gain in _alike(step, worth)]
        screen.draw(screen.styled((screen.line(_headline(step)), "bold")), file=file)
        screen.draw(screen.table(columns, rows, folds="what"), file=file)
        print(_sum(step, worth, price) + "\n", file=file or sys.stdout)
    for refusal in history.refusals:
        print(screen.visible(refusal), file=file or sys.stdout)


def _alike(step: Step, worth: Worth) -> list[tuple[list[str], int, float]]:
    """Edits that read the same are one row: thirty blocks of old thinking left for one reason."""
    sums: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for edit, gain in zip(step.batch.edits, worth.gains, strict=True):
        sums.setdefault((edit.by, _what(step, edit), edit.reason), []).append((edit.saved, gain))
    return [
        ([by, what if len(all) == 1 else f"{what} × {len(all)}", why], sum(n for n, _ in all), sum(g for _, g in all))
        for (by, what, why), all in sums.items()
    ]


def _what(step: Step, edit: Edit) -> str:
    return covered_told(step.covered(edit), edit, step)


def _headline(step: Step) -> str:
    told = step.batch.record
    when = moment(step.batch.at)
    parts = [
        f"{step.batch.id}, for request {step.turn.number}",
        when,
        f"{told.get('policy')} at level {told.get('level')}",
    ]
    parts.append(f"{_tokens(told, 'tokens_before')} → {_tokens(told, 'tokens_after')} tokens")
    return " · ".join(part for part in parts if part) + (" · undone" if step.undone else "")


def _sum(step: Step, worth: Worth, price: float | None) -> str:
    edits, saved = len(step.batch.edits), sum(edit.saved for edit in step.batch.edits)
    told = f"{edits} edit{'s' * (edits != 1)}, {amounts.short(saved)} tokens out"
    told += f"; held in {worth.calls} request{'s' * (worth.calls != 1)}"
    if worth.rewrite:
        told += f"; rewriting the cache cost {_units(worth.rewrite, price)}"
    return f"{told}; net {_units(worth.net, price)}"


def _units(tokens: float, price: float | None) -> str:
    sign = "-" if tokens < 0 else ""
    return f"{sign}{amounts.short(round(abs(tokens)))}" if price is None else dollars(tokens, price)


def _tokens(record: object, key: str) -> str:
    value = record.get(key) if hasattr(record, "get") else 0
    return amounts.short(value if isinstance(value, int) else 0)


def _as_dict(history: History, price: float | None) -> dict[str, object]:
    return {
        "session": history.session,
        "requests": len(history.turns),
        "refusals": list(history.refusals),
        "batches": [_batch(history, step, price) for step in history.steps],
    }


def _batch(history: History, step: Step, price: float | None) -> dict[str, object]:
    told, worth = step.batch.record, worth_of(history, step)
    edits = [
        {
            "id": edit.id,
            "by": edit.by,
            "what": _what(step, edit),
            "why": edit.reason,
            "tokens": edit.saved,
            "worth": round(gain, 1),
            "usd": None if price is None else round(gain * price / 1_000_000, 6),
            "first": edit.first,
            "last": edit.last,
            "kept": way_back(edit),
        }
        for edit, gain in zip(step.batch.edits, worth.gains, strict=True)
    ]
    return {
        "id": step.batch.id,
        "request": step.turn.number,
        "at": step.batch.at,
        "policy": told.get("policy"),
        "level": told.get("level"),
        "tokens_before": told.get("tokens_before"),
        "tokens_after": told.get("tokens_after"),
        "undone": step.undone,
        "requests_held": worth.calls,
        "rewrite": round(worth.rewrite, 1),
        "net": round(worth.net, 1),
        "net_usd": None if price is None else round(worth.net * price / 1_000_000, 6),
        "edits": edits,
    }
