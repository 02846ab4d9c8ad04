"""Which history a record continues. Records name their parent: one that names another than the newest went back.

Parallel tool results hang beside each other on the same call, so a sibling that is only a result is no other branch.
"""

from __future__ import annotations

from ebbtide.formats.steps import Rewind, Step


class StepTree:
    """Steps in file order, with a rewind put in wherever the next one does not continue the last."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._step_of: dict[str, int | None] = {}
        """Record id to the step it is part of, or, for a record that is no step, the step it stands after."""
        self._above: list[int | None] = []
        self._beside: set[int] = set()
        self._line: list[int] = []
        self._place: dict[int, int] = {}

    def add(self, step: Step, *, record: str, parent: str, is_result: bool = False) -> int:
        """`parent` unknown to us, or empty, continues the newest step: that is file order."""
        above = self._step_of.get(parent) if parent else None
        if above is None and self._line:
            above = self._line[-1]
        if above is not None and not self._continues(above):
            self._rewind(self._history(above))
        return self._append(step, record, above, is_result)

    def add_root(self, step: Step, *, record: str) -> int:
        """The user went back to the very start."""
        if self._line:
            self._rewind([])
        return self._append(step, record, None, False)

    def join(self, record: str, index: int) -> None:
        """One more record of a step that is there already."""
        self._step_of[record] = index

    def add_link(self, record: str, parent: str) -> None:
        """A record that is no step, and still a link in the chain."""
        self._step_of[record] = self._step_of.get(parent)

    def step_of(self, record: str) -> int | None:
        return self._step_of.get(record)

    @property
    def current_steps(self) -> tuple[int, ...]:
        """The steps that make the present history."""
        return tuple(self._line)

    def _continues(self, above: int) -> bool:
        place = self._place.get(above)
        return place is not None and all(index in self._beside for index in self._line[place + 1 :])

    def _history(self, above: int) -> list[int]:
        """The step and all above it, with the results that hang beside the chain."""
        chain: set[int] = set()
        at: int | None = above
        while at is not None and at not in chain:
            chain.add(at)
            at = self._above[at]
        for index in sorted(self._beside):
            if self._above[index] in chain:
                chain.add(index)
        return sorted(chain)

    def _rewind(self, kept: list[int]) -> None:
        self.steps.append(Rewind(kept_steps=tuple(kept)))
        self._above.append(None)
        self._line = kept
        self._place = {index: place for place, index in enumerate(kept)}

    def _append(self, step: Step, record: str, above: int | None, beside: bool) -> int:
        index = len(self.steps)
        self.steps.append(step)
        self._above.append(above)
        if beside:
            self._beside.add(index)
        self._place[index] = len(self._line)
        self._line.append(index)
        if record:
            self._step_of[record] = index
        return index
