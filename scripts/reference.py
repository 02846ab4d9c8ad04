"""Generate the parts of the site's reference that come from the code, as Markdown. No list is kept by hand.

A page has `<!-- generated: NAME -->` where a part belongs; `site_hooks` inserts it when the site is built.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import textwrap
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from io import StringIO
from itertools import pairwise

import ebbtide
from ebbtide import config
from ebbtide.config_keys import KEYS
from ebbtide.core.planner import Pass
from ebbtide.fronts.cli.command_line import command_briefs, every_command
from ebbtide.passes import ARRIVAL, PASSES
from ebbtide.passes.when import ConditionalPass
from ebbtide.policy import PRESETS, Policy
from ebbtide.policy.adjust import LEVEL_NAMES, pass_name, pass_settings, simple_passes

STAGES = ("arrival", "always", "pressure", "folds", "last_resort")
WINDOWS = ((32_000, 4_000), (200_000, 8_000), (1_000_000, 32_000))
"""A small, a usual and a large window, each with the tokens that a request reserves for the reply."""

PLAIN = (int, float, str, frozenset, tuple, Mapping, type(None))
"""Types of settings that can be shown as values; others are code."""

Rows = Iterable[Iterable[str]]


def table(head: Iterable[str], rows: Rows) -> str:
    lines = [list(head), *(list(row) for row in rows)]
    body = [" | ".join(cell.replace("|", r"\|").replace("\n", " ") for cell in line) for line in lines]
    body.insert(1, " | ".join("---" for _ in lines[0]))
    return "\n".join(f"| {line} |" for line in body)


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def words(text: str) -> str:
    """Escape text, so that nothing in it is markup."""
    return re.sub(r"([\\`*_{}\[\]<>#])", r"\\\1", text)


# --- the command line -------------------------------------------------------------------------------------------------


def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """Return the parser of every command. Raise if one is missing, or the page would be incomplete."""
    found = every_command()
    if missing := command_briefs().keys() - found.keys():
        raise LookupError(f"no parser of {', '.join(sorted(missing))}: is an extra not installed?")
    return found


def commands() -> str:
    return "\n\n".join(_command(name, parser) for name, parser in parsers().items())


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").replace("[-h] ", "").split())
    parts = [f"### ebb {name}", _prose(parser.description or ""), f"```text\n{_wrapped(usage)}\n```"]
    parts += [_options(group) for group in parser._action_groups if _shown(group)]
    parts += _after(parser.epilog or "")
    return "\n\n".join(part for part in parts if part)


def _after(epilog: str) -> Iterator[str]:
    """Yield the sections that a help text ends with, such as the examples, each with its title."""
    for name, body in re.findall(r"^(\S[^\n]*):\n((?: .*\n?|\n)+)", epilog, re.MULTILINE):
        yield f"{name.capitalize()}:\n\n```text\n{textwrap.dedent(body).strip()}\n```"


def _wrapped(usage: str) -> str:
    # Keep brackets together, so that an option is not separated from its value.
    units = re.findall(r"\[[^\]]*\](?:\]|\.\.\.)*|\S+", usage)
    lines = [""]
    for unit in units:
        if len(lines[-1]) + len(unit) > 90:
            lines.append("   ")
        lines[-1] += f" {unit}" if lines[-1] else unit
    return "\n".join(lines)


def _prose(text: str) -> str:
    """Join the lines of paragraphs; indented parts keep their layout."""
    parts = re.split(r"\n\s*\n", textwrap.dedent(text).strip("\n"))
    laid_out = [bool(re.search(r"^ ", part, re.MULTILINE)) for part in parts]
    return "\n\n".join(
        f"```text\n{textwrap.dedent(part)}\n```" if fixed else words(" ".join(part.split()))
        for part, fixed in zip(parts, laid_out, strict=True)
    )


def _shown(group: argparse._ArgumentGroup) -> list[argparse.Action]:
    return [one for one in group._group_actions if one.help != argparse.SUPPRESS and "--help" not in one.option_strings]


def _options(group: argparse._ArgumentGroup) -> str:
    rows = ((code(_spelled(action)), words(_help(action))) for action in _shown(group))
    title = {"positional arguments": "argument", "options": "option"}.get(group.title or "", group.title or "option")
    return table((title, ""), rows)


def _spelled(action: argparse.Action) -> str:
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    value = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return value
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


def _help(action: argparse.Action) -> str:
    fields = {**vars(action), "prog": "ebb"}
    return re.sub(r"%\((\w+)\)s", lambda found: str(fields.get(found[1], "")), action.help or "").replace("%%", "%")


# --- settings ---------------------------------------------------------------------------------------------------------


def settings() -> str:
    usual, documented = config.Settings(), _field_docs(config.Settings)

    def row(name: str, field: str) -> Iterator[str]:
        default = getattr(usual, field)
        yield code(name)
        yield code(_value(default)) if default not in (None, "", {}) else "not set"
        yield documented.get(field, "")

    return table(("key", "default", ""), (row(name, key.field) for name, key in KEYS.items()))


def _field_docs(kind: type) -> Mapping[str, str]:
    """Return the docstring under each field."""
    (body,) = [node.body for node in ast.parse(textwrap.dedent(inspect.getsource(kind))).body]  # type: ignore[attr-defined]
    return {
        field.target.id: " ".join(said.value.value.split())
        for field, said in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant)
    }


# --- presets and passes -----------------------------------------------------------------------------------------------


def presets() -> str:
    return "\n\n".join(_preset(policy) for policy in PRESETS.values())


def _preset(policy: Policy) -> str:
    levels = [(window, output, policy.levels(window, policy.output_reserved or output)) for window, output in WINDOWS]
    lines = (
        (f"{window:,}", f"{policy.output_reserved or output:,}", *(f"{getattr(found, name):,}" for name in LEVEL_NAMES))
        for window, output, found in levels
    )
    facts = (
        ("counts by", code(_named(policy.gauge))),
        ("marks", code(_named(policy.marks)) if policy.marks else "none"),
        ("overflow", code(policy.overflow)),
        ("above the blocking level", "refuses" if policy.blocks else "sends"),
        *((stage.replace("_", " "), _stage(getattr(policy, stage))) for stage in STAGES),
    )
    return "\n\n".join(
        (f"### `{policy.name}`", table(("window", "for the reply", *LEVEL_NAMES), lines), table(("", "value"), facts))
    )


def _stage(passes: tuple[Pass, ...]) -> str:
    return "<br>".join(_in_policy(one) for one in passes) or "nothing"


def _in_policy(propose: Pass) -> str:
    told = ", ".join(_spelling(leaf) for leaf in simple_passes(propose))
    return f"{told}, when its condition holds" if isinstance(propose, ConditionalPass) else told


def _spelling(leaf: Pass) -> str:
    name = pass_name(leaf)
    linked = f"[`{name}`](passes.md#{name})" if name in {pass_name(one) for one in PASSES} else code(name)
    given = {key: value for key, value in _given(leaf).items() if isinstance(value, int | float | str | frozenset)}
    told = ", ".join(f"{key} = {_value(value)}" for key, value in given.items())
    return f"{linked} ({told})" if told else linked


def _given(leaf: Pass) -> Mapping[str, object]:
    return {**_given(leaf.func), **leaf.keywords} if isinstance(leaf, partial) else {}


def _named(part: object) -> str:
    return getattr(part, "__name__", type(part).__name__)


def passes() -> str:
    return "\n\n".join(_pass(one) for one in PASSES)


def _pass(propose: Pass) -> str:
    name = pass_name(propose)
    users = [code(policy.name) for policy in PRESETS.values() if name in _names(policy)]
    reasons = _comments(propose)
    from_file = pass_settings(PRESETS).get(name, {})
    given = [one for one in inspect.signature(propose).parameters.values() if one.kind is one.KEYWORD_ONLY]
    plain = [one for one in given if isinstance(one.default, PLAIN)]
    rows = (
        (
            code(one.name),
            code(_value(one.default)),
            words(_uncited(reasons.get(one.name, ""))),
            "yes" if one.name in from_file else "",
        )
        for one in plain
    )
    parts = [
        f"### {name} {{ #{name} }}",
        _uncited(" ".join((inspect.getdoc(propose) or "").split())),
        f"{'On arrival. ' if propose in ARRIVAL else ''}In {', '.join(users)}." if users else "In no preset.",
        table(("setting", "default", "", "in a configuration"), rows) if plain else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _uncited(text: str) -> str:
    """Remove the numbers of requirements and decisions, which are only for contributors."""
    return re.sub(r",? ?\(?\b[RDE]\d+(?:, [RDE]\d+)*\b\)?", "", text)


def _names(policy: Policy) -> set[str]:
    """Return all passes of a policy, even if it uses them under another name."""
    found = [leaf for stage in STAGES for one in getattr(policy, stage) for leaf in simple_passes(one)]
    called = {name for leaf in found for name in inspect.unwrap(_function(leaf)).__code__.co_names}
    return {pass_name(leaf) for leaf in found} | called


def _function(leaf: Pass) -> Pass:
    return _function(leaf.func) if isinstance(leaf, partial) else leaf


def _comments(propose: Pass) -> Mapping[str, str]:
    """Return a mapping from settings to the comments on their lines."""
    source = inspect.getsource(propose)
    (function,) = ast.parse(source).body
    lines = {one.lineno: one.arg for one in function.args.kwonlyargs}  # type: ignore[attr-defined]
    found = tokenize.generate_tokens(StringIO(source).readline)
    return {
        lines[token.start[0]]: token.string.lstrip("# ")
        for token in found
        if token.type == tokenize.COMMENT and token.start[0] in lines
    }


def _value(value: object) -> str:
    match value:
        case frozenset():
            return ", ".join(sorted(value)) or "none"
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case tuple():
            return ", ".join(_value(one) for one in value)
        case Mapping():
            return ", ".join(f"{key} {_value(one)}" for key, one in value.items())
    return str(value)


# --- Python -----------------------------------------------------------------------------------------------------------


def python() -> str:
    """Return a directive for each public name; mkdocstrings reads signatures and docstrings."""
    return "\n\n".join(f"::: ebbtide.{name}" for name in sorted(ebbtide.__all__, key=str.lower))


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "presets": presets,
    "passes": passes,
    "python": python,
}
