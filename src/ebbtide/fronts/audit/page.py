"""The audit as one page to share. It has figures only: no names of projects or files, no paths, no texts.

No script and nothing loaded from elsewhere; the Content-Security-Policy allows its own style sheet alone, by hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from ebbtide import __version__
from ebbtide.fronts.audit.measure import AuditRow, Measured, add_up
from ebbtide.fronts.audit.tables import COLUMNS, basis, by_month, by_project, cells, verdict
from ebbtide.palette import DARK, LIGHT

_STYLE = f"""
:root {{ color-scheme: light dark; --ink: {LIGHT["ink"]}; --soft: {LIGHT["soft"]}; --paper: {LIGHT["paper"]};
  --edge: {LIGHT["edge"]}; --ours: {LIGHT["ours"]}; --raw: {LIGHT["raw"]}; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: {DARK["ink"]}; --soft: {DARK["soft"]}; --paper: {DARK["paper"]};
  --edge: {DARK["edge"]}; --ours: {DARK["ours"]}; --raw: {DARK["raw"]}; }} }}
body {{ margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }}
main {{ max-width: 56rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }}
h1 {{ font-size: 1.6rem; margin: 0 0 .5rem; }} h2 {{ font-size: 1.1rem; margin: 2rem 0 .3rem; }}
p {{ margin: .3rem 0; }} .soft {{ color: var(--soft); font-size: .9rem; }} .verdict {{ font-size: 1.15rem; }}
.scroll {{ overflow-x: auto; }} table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--edge); white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }} th {{ color: var(--soft); font-weight: 600; }}
svg {{ display: block; width: 100%; height: auto; margin: 1rem 0; }} .ours {{ fill: var(--ours); }}
.raw {{ fill: var(--raw); }} svg text {{ fill: var(--ink); font-size: 14px; }}
"""
_WIDTH, _BAR, _LABEL = 760, 26, 150
"""Of the picture, in its own units."""


def build_page(results: Sequence[Measured], at: float) -> str:
    measured = [result for result in results if result.row.calls]
    total = add_up(result.row for result in measured)
    projects = [(f"project {n}", row) for n, (_, row) in enumerate(by_project(measured), 1)]
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    day = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
    sentences = list(verdict(total))
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer"><title>What my coding agents cost</title>',
        f"<style>{_STYLE}</style></head><body><main>",
        "<h1>What my coding agents cost, and would have cost with Ebbtide</h1>",
        f'<p class="verdict">{escape(sentences[0])}</p>',
        *(f"<p>{escape(sentence)}</p>" for sentence in sentences[1:]),
        _bars(total),
        _table("By project", "project", projects),
        _table("By month", "month", by_month(measured)),
        "<h2>How this is counted</h2>",
        *(f'<p class="soft">{escape(sentence)}</p>' for sentence in basis(total, len(results) - len(measured))),
        '<p class="soft">Missing: names that the agent used again after more than ten calls and that its request would'
        " not have had. This page has no names, paths or texts of the sessions.</p>",
        f'<p class="soft">Made on {day} by Ebbtide {escape(__version__)} with <code>ebb audit --html</code>.</p>',
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def _bars(total: AuditRow) -> str:
    amounts = (("as it was", total.cost, "raw"), ("with Ebbtide", total.with_ebbtide, "ours"))
    most = max(total.cost, total.with_ebbtide) or 1.0
    rows = []
    for n, (name, amount, look) in enumerate(amounts):
        top, width = n * (_BAR + 10), (_WIDTH - 2 * _LABEL) * amount / most
        rows.append(f'<text x="0" y="{top + 18}">{name}</text>')
        rows.append(f'<rect class="{look}" x="{_LABEL}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="3"/>')
        rows.append(f'<text x="{_LABEL + width + 8:.1f}" y="{top + 18}">${amount:,.2f}</text>')
    height = 2 * (_BAR + 10)
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img"><title>The bills</title>{"".join(rows)}</svg>'


def _table(title: str, name: str, rows: Sequence[tuple[str, AuditRow]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in (name, *COLUMNS))
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (label, *cells(row))) + "</tr>" for label, row in rows
    )
    return (
        f'<h2>{title}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
