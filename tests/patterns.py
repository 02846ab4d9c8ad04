"""Every regular expression of the package, how it is used, and inputs that would make a slow one slow.

Inputs are made of the pattern's own alphabet: what a repetition repeats, what must stand before it, and both again and
again. A pattern that looks at a text of n characters n times over is found by how its work grows, not by a clock: see
`growth`.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import ebbtide

SOURCES = Path(ebbtide.__file__).parent
GENERIC = (
    "a",
    "A",
    "0",
    " ",
    "\n",
    "\t",
    "-",
    "a-",
    "a.",
    "a_",
    "/",
    "a/",
    '"',
    "'",
    "\\",
    "<",
    "(",
    "[",
    "{",
    "=",
    ":",
    "a ",
    "a\n",
    "é",
    "。",
)
SIZES = (60, 250, 1_000, 4_000, 16_000)
"""Characters. The first are short, so that what takes the fourth power of a text is found before it takes an hour."""
NOTHING = 0.00005
"""Seconds, below which nothing is measured. To look at a thousand characters from every place takes longer."""
_MANY = 40
"""Repetitions above which a bound bounds little."""


class Use(NamedTuple):
    """A pattern, where it stands, and by which of its methods it is used: `search` for all that look anywhere."""

    where: str
    pattern: re.Pattern[Any]
    how: frozenset[str]


def uses() -> list[Use]:
    """Of all modules: patterns that they hold, in whatever, and those that are written where they are used."""
    trees = list(_trees())
    methods, found, seen = _methods(trees), dict[tuple[Any, int], Use](), set[int]()
    for name in _modules():
        try:
            module = importlib.import_module(name)
        except ImportError:  # an extra that is not installed
            continue
        for label, pattern in _held(module, seen):
            called = methods.get((name, label)) if label.startswith("_") else None
            _add(found, f"{name}.{label}", pattern, called)
    for where, pattern, method in _written(trees):
        if method != "compile" or (pattern.pattern, pattern.flags) not in found:
            _add(found, where, pattern, {method})
    return list(found.values())


def _add(found: dict[tuple[Any, int], Use], where: str, pattern: re.Pattern[Any], called: set[str] | None) -> None:
    here = frozenset(one if one in ("match", "fullmatch") else "search" for one in called or ("search",))
    key = (pattern.pattern, pattern.flags)
    before = found[key].how if key in found else frozenset()
    found[key] = Use(where, pattern, before | here)


def _modules() -> Iterator[str]:
    yield "ebbtide"
    for one in pkgutil.walk_packages(ebbtide.__path__, "ebbtide."):
        if not one.name.endswith("__main__"):
            yield one.name


def _held(module: ModuleType, seen: set[int]) -> Iterator[tuple[str, re.Pattern[Any]]]:
    def walk(value: object, label: str, deep: int) -> Iterator[tuple[str, re.Pattern[Any]]]:
        if isinstance(value, re.Pattern):
            yield label, value
            return
        if deep == 0 or id(value) in seen:
            return
        seen.add(id(value))
        for name, part in _parts(value):
            yield from walk(part, f"{label}[{name}]", deep - 1)

    for name, value in vars(module).items():
        yield from walk(value, name, 6)


def _parts(value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, dict):
        yield from value.items()
        yield from (("key", key) for key in value)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from enumerate(value)
    elif isinstance(value, partial):
        yield from enumerate((*value.args, *value.keywords.values()))
    elif isinstance(value, FunctionType):
        yield from enumerate(value.__defaults__ or ())
        yield from (value.__kwdefaults__ or {}).items()
        for cell in value.__closure__ or ():
            try:
                yield "closure", cell.cell_contents
            except ValueError:  # not filled yet
                continue
    elif isinstance(value, type) and value.__module__.startswith("ebbtide"):
        yield from vars(value).items()
    elif dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            yield one.name, getattr(value, one.name, None)


Trees = list[tuple[str, ast.AST]]


def _trees() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "import re\n" in text:
            parts = path.relative_to(SOURCES.parent).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), ast.parse(text)


def _methods(trees: Trees) -> dict[tuple[str, str], set[str]]:
    """From a module and a name of its own to what is done with it: `_WORD.search(...)`, or given away as a value."""
    found = defaultdict[tuple[str, str], set[str]](set)
    for module, tree in trees:
        called = set[int]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                called.add(id(node.value))
                if node.attr not in ("pattern", "flags"):
                    found[module, node.value.id].add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
                found[module, node.id].add("as a value")
    return found


def _written(trees: Trees) -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """`re.search("...", text)` in a function: patterns that no module holds."""
    for module, tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            of, method = node.func.value, node.func.attr
            if not isinstance(of, ast.Name) or of.id != "re" or method == "escape":
                continue
            given = node.args[0]
            if isinstance(given, ast.Constant) and isinstance(given.value, (str, bytes)):
                flags = next((word.value for word in node.keywords if word.arg == "flags"), None)
                told = [*node.args[1:], *([flags] if flags else [])]
                yield f"{module}:{node.lineno}", re.compile(given.value, _flags(told)), method


def _flags(nodes: list[ast.expr]) -> int:
    names = [part.attr for node in nodes for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    return sum({int(getattr(re, name)) for name in names if isinstance(getattr(re, name, None), re.RegexFlag)})


# --- inputs --------------------------------------------------------------------------------------------------------


def attacks(pattern: re.Pattern[Any], size: int) -> Iterator[tuple[str, str]]:
    """Texts of about this size that are hard to look through, and of what each is made."""
    tree = list(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    units, leads = list(GENERIC), list[tuple[str, str]]()
    for pick in range(3):
        for before, unit in _repeats(tree, "", pick):
            units += [unit, before + unit, unit + before] if len(before) < 60 else [unit]
            leads.append((before, unit))
        parts = [_sample([node], pick) for node in tree]
        units += ["".join(parts[:n]) for n in range(1, len(parts) + 1)]
        units.append("".join(parts)[:-1])
    for unit in filter(None, dict.fromkeys(units)):
        yield unit, unit * (size // len(unit)) + "\0"
    for before, unit in dict.fromkeys(leads):
        if before and unit:
            yield f"{before} and then {unit}", before + unit * (size // len(unit)) + "\0"


def _repeats(nodes: list[Any], before: str, pick: int) -> Iterator[tuple[str, str]]:
    """What a repetition without a near end repeats, and a text that leads up to it."""
    for node in nodes:
        op, arg = node
        if op in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            body = list(arg[2])
            if arg[1] is codes.MAXREPEAT or arg[1] > _MANY:
                yield before, _sample(body, pick)
            yield from _repeats(body, before, pick)
        elif op is codes.SUBPATTERN:
            yield from _repeats(list(arg[3]), before, pick)
        elif op is codes.ATOMIC_GROUP:
            yield from _repeats(list(arg), before, pick)
        elif op is codes.BRANCH:
            for way in arg[1]:
                yield from _repeats(list(way), before, pick)
        elif op in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _repeats(list(arg[1]), before, pick)
        before += _sample([node], pick)


def _sample(nodes: list[Any], pick: int) -> str:
    """A text that these match, or nearly; `pick` chooses among the ways."""
    return "".join(_one(op, arg, pick) for op, arg in nodes)


def _one(op: Any, arg: Any, pick: int) -> str:
    if op is codes.LITERAL:
        return chr(arg)
    if op is codes.NOT_LITERAL:
        return "b" if chr(arg) == "a" else "a"
    if op is codes.ANY:
        return "a b"[pick]
    if op is codes.IN:
        return _of_set(arg, pick)
    if op is codes.BRANCH:
        ways = arg[1]
        return _sample(list(ways[pick % len(ways)]), pick)
    if op is codes.SUBPATTERN:
        return _sample(list(arg[3]), pick)
    if op is codes.ATOMIC_GROUP:
        return _sample(list(arg), pick)
    if op in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return _sample(list(arg[2]), pick) * min(max(arg[0], pick % 2), 60)
    return ""


_CATEGORIES = {
    codes.CATEGORY_DIGIT: "019",
    codes.CATEGORY_SPACE: " \n\t",
    codes.CATEGORY_WORD: "a0_",
    codes.CATEGORY_NOT_DIGIT: "a -",
    codes.CATEGORY_NOT_SPACE: "a-/",
    codes.CATEGORY_NOT_WORD: " -/",
}


def _of_set(arg: list[Any], pick: int) -> str:
    if arg and arg[0][0] is codes.NEGATE:
        match = re.compile("[^" + "".join(_class(one) for one in arg[1:]) + "]")
        fitting = [one for one in "a -/.0\"'<({\\=:\n" if match.match(one)]
        return fitting[pick % len(fitting)] if fitting else "\x01"
    ways: list[str] = []
    for op, what in arg:
        if op is codes.LITERAL:
            ways.append(chr(what))
        elif op is codes.RANGE:
            ways.append(chr(what[0]))
        elif op is codes.CATEGORY:
            ways.append(_CATEGORIES[what][pick])
    # The first, the last and one between: letters, and what may stand between them.
    return ways[(0, -1, len(ways) // 2)[pick]] if ways else ""


_NAMES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_NOT_WORD: r"\W",
}


def _class(one: tuple[Any, Any]) -> str:
    op, what = one
    if op is codes.LITERAL:
        return re.escape(chr(what))
    if op is codes.RANGE:
        return f"{re.escape(chr(what[0]))}-{re.escape(chr(what[1]))}"
    return _NAMES[what]


# --- growth --------------------------------------------------------------------------------------------------------


def growth(use: Use) -> str:
    """Of what a text is made on which the work of a pattern grows faster than the text; empty where there is none."""
    texts = [dict(attacks(use.pattern, size)) for size in SIZES]
    for made_of in texts[-1]:
        for method in use.how:
            factor = steepness(partial(_run, use.pattern, method), [text[made_of] for text in texts if made_of in text])
            if factor:
                return f"{method} on a row of {made_of!r}: {factor:.0f} times the work for 4 times the text"
    return ""


def steepness(do: Callable[[str], object], texts: list[str]) -> float:
    """How much the work grows from one text to the next, each four times as long, where that is far too much; else 0.

    What looks at a text once has four times the work, and what looks at it from every place sixteen times. Believed is
    what shows twice in a row, or is beyond all doubt; and where it is first seen it is measured again. It is the work
    of this thread alone, and no time is too long: only a factor is too large.
    """
    before, steep = _spent(do, texts[0], 1), 0
    for n in range(1, len(texts)):
        now = _spent(do, texts[n], 1)
        if now < NOTHING:
            if len(texts[n]) >= SIZES[2]:
                return 0.0
            before, steep = now, 0
            continue
        if now > 8 * before:
            now, before = _spent(do, texts[n], 3), _spent(do, texts[n - 1], 5)
        steep = steep + 1 if now > 8 * before else 0
        if steep == 2 or (now > 40 * before and now > 10 * NOTHING):
            return now / before
        before = now
    return 0.0


def _run(pattern: re.Pattern[Any], method: str, text: str) -> None:
    given: Any = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    if method == "search":
        for _ in pattern.finditer(given):
            pass
    else:
        getattr(pattern, method)(given)


def _spent(do: Callable[[str], None], text: str, times: int) -> float:
    """The least of several: of this thread alone, whatever else the machine does."""
    best = float("inf")
    for _ in range(times):
        start = time.thread_time()
        do(text)
        best = min(best, time.thread_time() - start)
    return best
