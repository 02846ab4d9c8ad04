"""The colours of everything people look at: the terminal, the pages, the inspector and the pictures of the docs.

One name means one thing everywhere. The inspector's style sheet repeats those that it uses; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "paper": "#f6f7f9",
    "ink": "#14222c",
    "soft": "#59636e",
    "edge": "#dbe4ea",
    "ours": "#08746d",
    "raw": "#8c959f",
    "limit": "#b42525",
    "trigger": "#a66a00",
    "edit": "#a85d06",
    "summary": "#bf4219",
    "good": "#156a3b",
    "bad": "#b42525",
}
"""On a light background. `ours` is what Ebbtide sends, `raw` what would be sent without it, `limit` the window, and
`trigger` the size at which a policy acts."""
DARK: Mapping[str, str] = {
    "paper": "#0b1218",
    "ink": "#e6eef3",
    "soft": "#a9bac6",
    "edge": "#22323e",
    "ours": "#43d3c6",
    "raw": "#7e92a0",
    "limit": "#ff6b6b",
    "trigger": "#e8b04a",
    "edit": "#ffb86b",
    "summary": "#ff8f6b",
    "good": "#58c98b",
    "bad": "#ff6b6b",
}
TERMINAL: Mapping[str, str] = {
    "ours": "#1fa396",
    "raw": "#8a8f98",
    "limit": "#d8625e",
    "trigger": "#c8922e",
    "edit": "#d08438",
    "summary": "#e0714a",
    "good": "#4fae6d",
}
"""The same hues where the background may be light or dark."""
PARTS: Mapping[str, str] = {
    "system": "#5b7183",
    "tools": "#8397a5",
    "unrecorded": "#46586a",
    "user": "#f2c14e",
    "assistant": "#5aa2f7",
    "tool calls": "#9d85f5",
    "tool results": "#22b3a6",
    "thinking": "#e07fb8",
    "images": "#f2895b",
    "our stubs": "#9fd983",
    "other": "#8c8c8c",
}
"""The parts of a request, as in the inspector on a dark background and in every terminal."""
