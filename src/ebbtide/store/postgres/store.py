"""A store in PostgreSQL, for several machines. Each session belongs to a tenant, and so does each transaction.

The tenant of a session of the proxy is that of its credential; of any other session it is the one that the store was
opened with, by default the role that connects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from ebbtide.core.errors import BadConfig, StoreError
from ebbtide.store.postgres.connections import Observer, connections_to
from ebbtide.store.postgres.log import PostgresLog
from ebbtide.store.postgres.place import Place, as_store_error, transaction
from ebbtide.store.postgres.removal import Row, choose, refuse_open, remove, remove_lost, survey
from ebbtide.store.postgres.rows import LIST_SESSIONS, from_column, session_info, to_column
from ebbtide.store.postgres.schema import ALL_TENANTS, grant
from ebbtide.store.protocol import GRACE, GcResult, SessionInfo
from ebbtide.store.sessions import fork_log
from ebbtide.store.tenants import tenant_of


class PostgresStore:
    def __init__(self, url: str, *, durable: bool = True, tenant: str = "") -> None:
        if tenant == ALL_TENANTS:
            raise BadConfig(f"tenant: {ALL_TENANTS!r} cannot be a name")
        self.connections = connections_to(url)
        self._durable, self._tenant = durable, tenant
        self._observer: Observer | None = None

    def __repr__(self) -> str:
        return f"PostgresStore({self.label!r})"

    @property
    def label(self) -> str:
        """The address without the password."""
        return self.connections.address.label

    def open(self, session: str, *, project: str = "", now: float) -> PostgresLog:
        return PostgresLog(self._place(session, project), now, takes_lease=True)

    def peek(self, session: str, *, project: str = "") -> PostgresLog:
        return PostgresLog(self._find(session, project), 0.0)

    def list_sessions(self) -> list[SessionInfo]:
        scope = self._scope()
        with transaction(self.connections, scope, "list the sessions in", read_only=True) as connection:
            rows = connection.execute(LIST_SESSIONS, (scope,)).fetchall()
        return [session_info(row) for row in rows]

    def projects_of(self, session: str) -> list[str]:
        """The projects that have a session of this name, newest first, of any tenant: the name is hard to guess."""
        with as_store_error(self.connections, "look up a session in"), self.connections.lend() as connection:
            rows = connection.execute("SELECT ebbtide.projects_of(%s)", (to_column(session),)).fetchall()
        return [from_column(project) for (project,) in rows]

    def fork(self, session: str, new: str, *, project: str = "", upto: int | None = None, now: float) -> PostgresLog:
        source, target = self.peek(session, project=project), self.open(new, project=project, now=now)
        fork_log(source, target, upto=upto, now=now)
        return target

    def gc(
        self, *, older_than: float | None = None, max_bytes: int | None = None, now: float, dry_run: bool = False
    ) -> GcResult:
        self._give_back()
        scope = self._scope()
        rows = survey(self.connections, scope)
        old = choose(rows, older_than=older_than, max_bytes=max_bytes, now=now)
        removed = remove(self.connections, [row for row in old if not row.is_open], dry_run=dry_run)
        lost = remove_lost(self.connections, scope, now - GRACE, dry_run=dry_run)
        freed = removed.freed + lost.freed
        return GcResult(
            sessions=removed.sessions,
            blobs=removed.blobs + lost.blobs,
            freed=freed,
            left=sum(row.bytes for row in rows) - freed,
            in_use=tuple(sorted(row.name for row in old if row.is_open)),
        )

    def delete_session(self, session: str, *, project: str = "", force: bool = False) -> GcResult:
        self.check()
        place = self._find(session, project)
        rows = survey(self.connections, place.tenant)
        mine = [row for row in rows if row.key == place.key[1] and row.is_stored]
        if not mine:
            raise StoreError(f"there is no session {session!r} of ours to delete")
        return self._delete(rows, mine, force=force)

    def delete_tenant(self, tenant: str, *, force: bool = False) -> GcResult:
        rows = survey(self.connections, tenant)
        return self._delete(rows, [row for row in rows if row.is_stored], force=force)

    # --- the database --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Connect, and create or update the tables. Raise `StoreError` if the database cannot be reached."""
        with self.connections.lend():
            pass

    @property
    def is_reachable(self) -> bool:
        return self.connections.is_reachable

    def grant(self, role: str) -> None:
        """Let a role that owns nothing use the store."""
        with as_store_error(self.connections, "change"), self.connections.lend() as connection:
            grant(connection, role)

    def observe(self, report: Callable[[str, float], None]) -> None:
        """Call `report` with the name and the seconds of what the database was asked for."""
        self._observer = Observer(report)
        self.connections.observers.add(self._observer)

    def close(self) -> None:
        """Close the connections that are not in use. The store can still be used, and connects again."""
        with suppress(StoreError):
            self._give_back()
        self.connections.close()

    def _give_back(self) -> None:
        """Remove the marks of logs that nobody has any more."""
        with self.connections.lend() as connection:
            self.connections.leases.give_back(connection)

    def _place(self, session: str, project: str) -> Place:
        tenant = tenant_of(project) or self._tenant
        return Place(self.connections, project, session, tenant, self._durable)

    def _find(self, session: str, project: str) -> Place:
        """Find a session that may be of any tenant, if this role may see all."""
        place = self._place(session, project)
        if place.known_tenant or self._scope() != ALL_TENANTS:
            return place
        with transaction(self.connections, ALL_TENANTS, "look up a session in", read_only=True) as connection:
            row = connection.execute(
                "SELECT tenant FROM ebbtide.session WHERE key = %s AND size > 0 ORDER BY tenant <> %s, changed DESC",
                (place.key[1], self.connections.user),
            ).fetchone()
        return replace(place, known_tenant=str(row[0])) if row else place

    def _scope(self) -> str:
        """The tenant whose sessions are listed: all, for the owner of the tables."""
        self.check()
        if self.connections.sees_all and not self._tenant:
            return ALL_TENANTS
        return self._tenant or self.connections.user

    def _delete(self, rows: Sequence[Row], mine: Sequence[Row], *, force: bool) -> GcResult:
        self._give_back()
        if not force:
            refuse_open(mine)
        result = remove(self.connections, mine, force=force)
        return replace(result, left=sum(row.bytes for row in rows) - result.freed)
