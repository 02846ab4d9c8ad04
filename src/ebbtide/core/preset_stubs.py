"""The stubs of the presets, letter for letter as their reference agents write them.

A template that names a file falls back to our own stub if there is no file: it must not promise one.
"""

from __future__ import annotations

from ebbtide.core.stub import Stub, render
from ebbtide.core.text.framing import neutral, tag_names


def mini_claude_persisted(stub: Stub) -> str:
    """R102."""
    if not stub.file:
        return render(stub)
    return (
        f"[Result too large ({stub.octets / 1024:.1f} KB, {stub.lines} lines). Full output saved to {stub.path}. "
        f"You can use read_file to see the full result.]\n\nPreview (first 200 lines):\n{stub.preview}"
    )


def mini_claude_snipped(_: Stub) -> str:
    """R125."""
    return "[Content snipped - re-read if needed]"


def mini_claude_cleared(_: Stub) -> str:
    """R132."""
    return "[Old result cleared]"


_PERSISTED = tag_names(["persisted-output"])


def claude_code_persisted(stub: Stub) -> str:
    """R111, sizes as in the captured request (E4). What is shown cannot close the tag."""
    if not stub.file:
        return render(stub)
    (preview,) = neutral([stub.preview], _PERSISTED)
    return (
        f"<persisted-output>\nOutput too large ({_kilobytes(stub.chars)}). Full output saved to: {stub.path}\n\n"
        f"Preview (first 2KB):\n{preview}" + ("\n...\n" if stub.more else "\n") + "</persisted-output>"
    )


def claude_code_cleared(stub: Stub) -> str:
    """R143, with the captured request's two newlines (E4). Where nothing is kept, what Claude Code says on failure."""
    if not stub.file:
        return "[Old tool result content cleared]"
    return f"<persisted-output>Tool result saved to: {stub.path}\n\nUse Read to view</persisted-output>"


def opencode_cleared(_: Stub) -> str:
    """R154."""
    return "[Old tool result content cleared]"


def learn_persisted(stub: Stub) -> str:
    """R115."""
    if not stub.file:
        return render(stub)
    return f"Output too large. Saved to: {stub.path}\nPreview:\n{stub.preview}..."


def learn_cleared(_: Stub) -> str:
    """R151."""
    return "[Output compacted - re-read if needed]"


def region_input(stub: Stub) -> str:
    """R116."""
    if not stub.file:
        return render(stub)
    return f"[Large input saved to {stub.path}, {stub.chars} chars. Use Read tool to access.]"


def region_output(stub: Stub) -> str:
    """R117. The article's code counts characters and calls them bytes."""
    note = f"[Output truncated, {stub.chars} bytes total. Save to file with > if you need full output.]"
    return f"{stub.preview}\n\n{note}"


def region_evicted(_: Stub) -> str:
    """R252."""
    return "[Earlier turns truncated due to compactor error]"


def render_truncated(chars: int) -> str:
    """What stands between head and tail, R099."""
    return f"\n\n[... truncated {chars} chars ...]\n\n"


def render_budgeted(chars: int) -> str:
    """What stands between head and tail, R121."""
    return f"\n\n[... budgeted: {chars} chars truncated ...]\n\n"


def _kilobytes(chars: int) -> str:
    """As the captured request has it: `134.7KB`, `2KB`."""
    if chars < 1024:
        return f"{chars} bytes"
    amount, unit = (chars / 1024, "KB") if chars < 1024**2 else (chars / 1024**2, "MB")
    return f"{amount:.1f}".removesuffix(".0") + unit
