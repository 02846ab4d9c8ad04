"""Orders the steps of a file whose records name their parent, and notes where the user went back.

The results of parallel calls are children of the same record, so a sibling that holds only results is no other branch.
"""

from __future__ import annotations

from ebbtide.formats.steps import Rewind, Step


class StepTree:
    """Steps in file order. Where the next one does not continue the last, a `Rewind` is inserted."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.branch: list[int] = []
        """The steps that make up the current history."""
        self._step_by_record: dict[str, int | None] = {}
        """The step that a record belongs to; for a record that is no step, the step it follows."""
        self._parents: list[int | None] = []
        self._result_steps: set[int] = set()

    def add(self, step: Step, *, record: str, parent: str, is_result: bool = False) -> int:
        """Add a step. If `parent` is empty or unknown, it continues the newest step."""
        above = self._step_by_record.get(parent) if parent else None
        if above is None and self.branch:
            above = self.branch[-1]
        if above is not None and not self._is_newest(above):
            self._rewind(self._history(above))
        return self._append(step, record, above, is_result)

    def add_root(self, step: Step, *, record: str) -> int:
        """Add a step that begins again: the user went back to the start."""
        if self.branch:
            self._rewind([])
        return self._append(step, record, None, False)

    def join(self, record: str, index: int) -> None:
        """Note that a record belongs to an existing step."""
        self._step_by_record[record] = index

    def add_link(self, record: str, parent: str) -> None:
        """Note a record that is no step, but that others name as their parent."""
        self._step_by_record[record] = self._step_by_record.get(parent)

    def step_of(self, record: str) -> int | None:
        return self._step_by_record.get(record)

    def _is_newest(self, above: int) -> bool:
        """Whether only results follow the step in the current history."""
        for index in reversed(self.branch):
            if index == above:
                return True
            if index not in self._result_steps:
                return False
        return False

    def _history(self, above: int) -> list[int]:
        """Return the step and all above it, with the results beside them."""
        history: set[int] = set()
        index: int | None = above
        while index is not None and index not in history:
            history.add(index)
            index = self._parents[index]
        for result in sorted(self._result_steps):
            if self._parents[result] in history:
                history.add(result)
        return sorted(history)

    def _rewind(self, kept: list[int]) -> None:
        self.steps.append(Rewind(kept_steps=tuple(kept)))
        self._parents.append(None)
        self.branch = kept

    def _append(self, step: Step, record: str, above: int | None, is_result: bool) -> int:
        index = len(self.steps)
        self.steps.append(step)
        self._parents.append(above)
        if is_result:
            self._result_steps.add(index)
        self.branch.append(index)
        if record:
            self._step_by_record[record] = index
        return index
