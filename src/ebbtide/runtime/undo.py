"""A batch of edits is left out again, or comes back. Both are records, and hold in every process."""

from __future__ import annotations

from ebbtide.core.types import Edit
from ebbtide.runtime.effects import ReleaseLock, Steps
from ebbtide.runtime.session import Session
from ebbtide.state.session_state import ebb_record


def undo_batch(session: Session, *, now: float, batch: str = "") -> Steps[tuple[Edit, ...]]:
    """Leave the newest batch of edits out, or the one named."""
    held = yield from session._catch_up()
    standing = [one for one in session.state.batches if one.id not in session.state.undone]
    chosen = [one for one in standing if one.id == batch] if batch else standing[-1:]
    if not chosen:
        yield ReleaseLock()
        return ()
    yield from session._settle([ebb_record("undo", batch=chosen[0].id, at=now)], now, held)
    session._repin()
    return chosen[0].edits


def redo_batch(session: Session, *, now: float) -> Steps[tuple[Edit, ...]]:
    """Bring back the batch that was undone last."""
    held = yield from session._catch_up()
    if not session.state.undone:
        yield ReleaseLock()
        return ()
    batch = next(one for one in session.state.batches if one.id == session.state.undone[-1])
    yield from session._settle([ebb_record("redo", batch=batch.id, at=now)], now, held)
    session._repin()
    return batch.edits
