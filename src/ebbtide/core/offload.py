"""Move content out of the conversation. Name, blob, stub and edit are built together, so every stub names a real blob.

The runtime writes an edit's blobs before it records the edit, and drops the edit if that fails. If nothing is stored,
there is no blob and no handle, and the stub says that the content was not kept.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from ebbtide.core.edit_rules import find_turn_starts_reversed
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import BlobNames, Stub, Template, digest
from ebbtide.core.text.preview import Preview
from ebbtide.core.tool_calls import describe_item, tool_name
from ebbtide.core.types import OURS, Blob, Edit, Item
from ebbtide.core.view import View

HISTORY = "history"
"""The key of removed messages, which have no call id."""

Form = Callable[[Item], tuple[str, str]]
"""How a result is stored: its text, and the suffix of the file name."""


def readable(item: Item) -> tuple[str, str]:
    """Store as text, so that lines can be read one by one; as JSON only if some parts are not text."""
    parts = describe_item(item) if item.media else None
    return (item.text, ".txt") if parts is None else (parts, ".json")


def as_received(item: Item) -> tuple[str, str]:
    """Store a list of parts as JSON and a string as text (R109)."""
    parts = describe_item(item)
    return (item.text, ".txt") if parts is None else (parts, ".json")


def no_preview(_text: str, _count: object) -> str:
    """No preview."""
    return ""


def can_offload(view: View, entry: Item) -> bool:
    """Whether a pass may move this out: an unprotected original with content that the model has read."""
    is_protected = entry.locked or entry.pinned or view.is_ours(entry)
    return not is_protected and entry.id not in view.unseen_ids and bool(entry.text or entry.media)


def newest_turns(view: View, turns: int) -> int:
    """Return the index where the newest `turns` turns begin: the end for 0, the start if there are not that many."""
    if turns == 0:
        return len(view.entries)
    starts = list(islice(find_turn_starts_reversed(view), turns + 1))
    return starts[turns - 1] if turns < len(starts) else 0


def original_of(view: View, entry: Item) -> Item:
    """Return the original under a replacement of one item; the entry itself if it is no replacement."""
    owner = view.edit_by_entry.get(entry.id)
    span = view.span(owner) if owner is not None and entry.id not in view.index else None
    return view.originals[span[0]] if span is not None else entry


@dataclass(kw_only=True)
class Offloader:
    """Builds the edits of one run of one pass. Two contents never share a blob name."""

    by: str
    view: View
    plan_input: PlanInput
    _given: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _names(self) -> BlobNames | None:
        names = self.plan_input.blob_names
        if names is None:
            return None
        # Edits made earlier in the same plan are not stored yet.
        blobs = [blob for edit in self.view.edits for blob in edit.blobs if blob.text]
        planned = {blob.name.lower(): blob.digest or digest(blob.text) for blob in blobs}
        return replace(names, taken=ChainMap(self._given, dict(names.taken), planned))

    def save_blob(self, key: str, text: str, suffix: str = ".txt") -> tuple[str, tuple[Blob, ...]]:
        """Return the path for the stub, and the blob to save first; both are empty if nothing is stored."""
        if self._names is None:
            return "", ()
        mark = digest(text)
        # It has no call id, and an abandoned plan may have stored another text under the same name.
        key = f"{HISTORY}-{mark[:8]}" if key == HISTORY else key
        name = self._names.name_for_digest(key, mark, suffix=suffix)
        self._given[name.lower()] = mark
        return self._names.path(name), (Blob(name=name, text=text, digest=mark),)

    def stub_result(
        self, entry: Item, template: Template, reason: str, *, preview: Preview = no_preview, form: Form = readable
    ) -> Edit:
        """Replace a result by a stub. The call stays, so the model knows what it did and can do it again."""
        text, suffix = form(entry)
        path, blobs = self.save_blob(entry.call_id, text, suffix)
        excerpt = preview(text, self.plan_input.count_tokens)
        stub = describe(text, kind="result", name=tool_name(self.view, entry), tokens=entry.tokens, path=path)
        return self.rewrite(
            entry, template(replace(stub, preview=excerpt, more=len(excerpt) < len(text))), reason, blobs
        )

    def count_tokens(self, entry: Item, text: str) -> int:
        """Tokens of this entry with another text: a result keeps its frame."""
        return self.plan_input.count_tokens(text) + (self.plan_input.result_overhead if entry.kind == "result" else 0)

    def rewrite(self, entry: Item, text: str, reason: str, blobs: tuple[Blob, ...]) -> Edit:
        """The same item with another text. `entry` may be a replacement: the edit names the original under it."""
        owner = self.view.edit_by_entry.get(entry.id)
        first, last = (owner.first, owner.last) if owner else (entry.id, entry.id)
        tokens = self.count_tokens(entry, text)
        put = replace(entry, id="", message=-1, text=text, tokens=tokens, media=0, source=OURS, raw=None)
        saved = entry.tokens - tokens
        return Edit(by=self.by, first=first, last=last, replacement=(put,), reason=reason, saved=saved, blobs=blobs)


def describe(text: str, *, kind: str, tokens: int, path: str, name: str = "", about: str = "") -> Stub:
    """A stub of this text, without preview."""
    return Stub(
        kind=kind,
        name=name,
        about=about,
        tokens=tokens,
        lines=text.count("\n") + 1 if text else 0,
        path=path,
        chars=len(text),
        octets=len(text.encode("utf-8", "surrogatepass")),
    )
