"""What a compaction keeps of what is needed next: files changed, files read, and names that the agent uses.

    python benchmarks/retention.py [--data DIR] [--json] [--fold parts|context] [--split fit|report|all]
                                   [--cap N] [--tail N] [--total N]

At every recorded compaction point the history is compacted without a model. `parts`: the text of the facts, the user's
messages and a tail of the newest items, combined here within `--total` tokens by the library's own estimate, to find
the best split. `context`: what `Context.compact` leaves, as users get it. The summary of the client's own compaction at
that point is scored in the same way. A name is visible if it occurs in what is left; `dir/: a, b` counts as the paths
that it means. A file is named if its whole path is; in the recorded summaries, which name files as people do, if its
base name is. Weights and the split were fitted on sessions whose sha256 is even (`fit`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from retention_points import Point, points, words

from ebbtide.core.edit_rules import find_seams
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import USER, Item
from ebbtide.core.view import View
from ebbtide.facts import collect_facts, render_facts
from ebbtide.runtime.context import Context
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"

TARGETS = {"changed": 0.99, "read": 0.90, "names": 0.80}
TOTAL = 25_000
WINDOW = 200_000
"""The window of the recorded Claude Code sessions."""
_GROUPED = re.compile(r"^(\S+/): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How much of what is needed is there."""

    found: int
    asked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    who: str
    point: Point
    tokens: int
    seconds: float
    kept: Mapping[str, Kept]


def count(text: str) -> int:
    """Count tokens without sampling: the estimator looks only at slices of long texts."""
    return DEFAULT.rounded(sum(DEFAULT.measure(text[n : n + 4000]) for n in range(0, len(text), 4000)))


def folded(point: Point, *, cap: int, tail: int, total: int) -> str:
    """Return what a compaction leaves as one text: the user's messages, the facts, the newest items."""
    view = View.of(point.items)
    sums = [0]
    for item in reversed(view.originals):
        sums.append(sums[-1] + item.tokens)
    after = list(reversed(sums))
    cut = next(cut for cut in find_seams(view) if after[cut] <= tail)
    newest = "\n".join(map(words, view.originals[cut:]))
    said = _said(view.originals[:cut], total - after[cut] - min(cap, (total - after[cut]) // 2))
    room = min(cap, total - after[cut] - count(said))
    text = render_facts(collect_facts(view.originals), max_tokens=room, count=count, nearby_text=f"{said}\n{newest}")
    return f"{text}\n{said}\n{newest}"


def _said(items: Sequence[Item], room: int) -> str:
    """Return the user's messages: the newest in full while they fit, older ones as one line."""
    texts = [item.text for item in items if item.role == "user" and item.kind == "text" and item.trust <= USER]
    kept: list[str] = []
    for text in reversed(texts):
        tokens = count(text)
        whole = tokens <= room
        kept.append(text if whole else text[:120])
        room -= tokens if whole else 40
    return "\n".join(reversed(kept))


def paths_in(text: str) -> str:
    """Return the full paths that grouped lines mean."""
    out = []
    for place, names in _GROUPED.findall(text):
        base = "" if place == "./" else place
        out += [base + name.split(" ")[0] for name in names.split(", ")]
    return "\n".join(out)


def compacted(point: Point) -> str:
    """Return what `Context.compact` leaves, as one text."""
    context = Context(window=WINDOW, wire=point.wire)
    context.compact(dict(point.request))
    body = context.prepare(dict(point.request)).body
    # The operator's text does not count as kept: a compaction never covers it.
    items = Reader(estimator=DEFAULT, wire=WIRES[point.wire]).read(body).items
    return "\n".join(words(item) for item in items if item.role != "system")


def ours(point: Point, fold: Callable[[Point], str]) -> Score:
    start = time.perf_counter()
    left = fold(point)
    seconds = time.perf_counter() - start
    said = f"{left}\n{paths_in(left)}"
    kept = {
        "changed": _kept(point.changed, said),
        "read": _kept(point.read, said),
        "names": _kept(point.needed, said),
        "specific": _kept(point.specific, said),
    }
    return Score(who="fold", point=point, tokens=count(left), seconds=seconds, kept=kept)


def recorded(point: Point) -> Score:
    left = point.left
    kept = {
        "changed": _kept((Path(path).name for path in point.changed), left),
        "read": _kept((Path(path).name for path in point.read), left),
        "names": _kept(point.needed, left),
        "specific": _kept(point.specific, left),
    }
    return Score(who="recorded", point=point, tokens=count(left), seconds=0.0, kept=kept)


def _kept(asked: Iterable[str], left: str) -> Kept:
    wanted = list(asked)
    return Kept(found=sum(one in left for one in wanted), asked=len(wanted))


def row(scores: Sequence[Score]) -> dict[str, float]:
    """Return shares over all points together; `worst` is the point that keeps the fewest names."""
    shares = {key: _share([score.kept[key] for score in scores]) for key in scores[0].kept}
    return {
        "points": len(scores),
        **shares,
        "worst": min(_share([score.kept["names"]]) for score in scores),
        "tokens": max(score.tokens for score in scores),
        "mean tokens": sum(score.tokens for score in scores) / len(scores),
        "seconds": max(score.seconds for score in scores),
    }


def _share(kept: Sequence[Kept]) -> float:
    return sum(one.found for one in kept) / max(1, sum(one.asked for one in kept))


def table(scores: Sequence[Score]) -> dict[str, dict[str, float]]:
    groups: dict[str, list[Score]] = {}
    for score in scores:
        if score.who == "recorded" and score.point.format != "claude-code":
            continue
        for half in ("all", score.point.half):
            groups.setdefault(f"{score.point.format}, {half}, {score.who}", []).append(score)
    return {name: row(groups[name]) for name in sorted(groups)}


def verdicts(lines: Mapping[str, Mapping[str, float]], total: int) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, line in lines.items():
        if name.endswith(", fold"):
            found |= {f"{name}: {key} at least {least:.0%}": line[key] >= least for key, least in TARGETS.items()}
            found[f"{name}: at most {total} tokens"] = line["tokens"] <= total
    return found


def shown(lines: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    names = list(next(iter(lines.values())))
    yield " ".join(["points at".ljust(32), *(name.rjust(11) for name in names)])
    for group, line in lines.items():
        cells = (f"{line[key]:.1%}" if 0 < line[key] <= 1 and key != "seconds" else f"{line[key]:.2f}" for key in names)
        yield " ".join([group.ljust(32), *(cell.removesuffix(".00").rjust(11) for cell in cells)])


def measured(data: Path, split: str, fold: Callable[[Point], str]) -> list[Score]:
    scores: list[Score] = []
    for n, point in enumerate(points(data), 1):
        if split in ("all", point.half):
            scores += [ours(point, fold), recorded(point)]
        if sys.stderr.isatty():
            print(f"\r{n} points", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return scores


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fold", choices=("parts", "context"), default="parts")
    parser.add_argument("--split", choices=("fit", "report", "all"), default="all")
    parser.add_argument("--cap", type=int, default=14_000, help="tokens for the facts")
    parser.add_argument("--tail", type=int, default=8_000, help="tokens for the newest items")
    parser.add_argument("--total", type=int, default=TOTAL)
    options = parser.parse_args(argv)
    parts = partial(folded, cap=options.cap, tail=options.tail, total=options.total)
    scores = measured(options.data, options.split, parts if options.fold == "parts" else compacted)
    lines = table(scores)
    met = verdicts(lines, options.total)
    if options.json:
        print(json.dumps({"table": lines, "targets": met}, indent=2))
        return 0
    print(*shown(lines), sep="\n")
    print(*(f"{'met' if good else 'MISSED'}: {target}" for target, good in met.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
