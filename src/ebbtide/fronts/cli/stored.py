"""Sessions of the store, by what people call them: an id, the beginning of one, or `last`."""

from __future__ import annotations

from pathlib import Path

from ebbtide.core.errors import BadRequest
from ebbtide.fronts.cli.screen import line
from ebbtide.store import Position, Reader, Record, SessionInfo, Store, open_store
from ebbtide.store.lines import scan

LAST = "last"
"""Names the session that changed last."""
_NAMED = 8  # sessions that an error lists: enough to choose from, few enough to read


def found(root: str, name: str, project: str | None = None) -> tuple[SessionInfo, Reader]:
    """The one session of that name, to look at. Two projects may each have one: then the project must be told."""
    store = open_store(root)
    info = chosen(store, root, name, project)
    return info, store.peek(info.session, project=info.project)


def records_of(info: SessionInfo, log: Reader) -> list[Record]:
    """Another program's file may stand where neither its session nor its project says: then the path is right."""
    records = log.read().records
    if records or not info.path:
        return records
    return scan([Path(info.path).read_bytes()], Position()).records


def chosen(store: Store, root: str, name: str, project: str | None = None) -> SessionInfo:
    sessions = [one for one in store.sessions() if project is None or one.project == project]
    if not sessions:
        raise BadRequest(f"{name!r} is no file, and there are no sessions in {root}")
    if name == LAST:
        return sessions[0]
    exact = [one for one in sessions if one.session == name]
    matching = exact or [one for one in sessions if name and one.session.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        where = "; ".join(f"{line(one.session, 60)} of {line(one.project, 60) or 'no project'}" for one in matching)
        raise BadRequest(f"{name!r} may mean {len(matching)} sessions: {where}. Give more of the id, or --project")
    known = ", ".join(line(one.session, 60) for one in sessions[:_NAMED])
    raise BadRequest(f"{name!r} is no file and no session in {root}; the newest are {known}")
