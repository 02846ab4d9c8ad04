"""What an SDK hands back, whatever it is: its answer is recorded, and it carries the report as `_ebbtide`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast

from ebbtide.fronts.sdk.gate import Passage
from ebbtide.fronts.sdk.tap import Response, listen
from ebbtide.runtime import Report


def taken(passage: Passage, told: object) -> None:
    """The provider took the request, and this is what the SDK made of its answer."""
    recording = _taken(passage, told)
    if recording is not None:
        recording()


async def ataken(passage: Passage, told: object) -> None:
    """The same, with what writes to a disk off the event loop."""
    recording = _taken(passage, told)
    if recording is not None:
        await asyncio.to_thread(recording)


def _taken(passage: Passage, told: object) -> Callable[[], None] | None:
    """What is left to do at once: nothing, where the answer is still to be read."""
    passage.accepted()
    carry(told, passage.report)
    response = _http_response(told)
    if response is None:
        return lambda: passage.answered(_dumped(told))
    carry(response, passage.report)
    with suppress(Exception):
        raw = listen(cast(Response, response), passage.heard)
        return (lambda: passage.heard(raw)) if raw else None
    return None


def carry(value: object, report: Report) -> None:
    """Models forbid unknown fields, not attributes; a string or a list takes neither, and goes without."""
    with suppress(Exception):
        object.__setattr__(value, "_ebbtide", report)


def _http_response(told: object) -> object | None:
    """The HTTP response below a raw response or a stream; None below a parsed answer."""
    if hasattr(told, "iter_raw"):
        return told
    found = getattr(told, "http_response", None) or getattr(told, "response", None)
    return found if hasattr(found, "iter_raw") else None


_ADDED = frozenset({"parsed", "parsed_arguments"})
"""What the SDK's own parsing adds to an answer; the provider never said it."""


def _dumped(told: object) -> object:
    dump = getattr(told, "model_dump", None)
    if dump is None:
        return told
    # The SDK's generic models warn of whatever the caller's own types hold.
    return _as_said(dump(mode="json", exclude_unset=True, by_alias=True, warnings=False))


def _as_said(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _as_said(part) for name, part in value.items() if name not in _ADDED}
    return [_as_said(part) for part in value] if isinstance(value, list) else value
