"""Removes sessions from the database: old ones, or those that a user deletes; and results that no log names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.core.errors import StoreError
from ebbtide.store.postgres.connections import Connections
from ebbtide.store.postgres.place import transaction
from ebbtide.store.postgres.rows import from_column
from ebbtide.store.postgres.schema import ALL_TENANTS
from ebbtide.store.protocol import GRACE, GcResult

_LEASE = "taken > now() - interval '1 day'"
"""Who has not used a session for a day, or has died, keeps nobody from deleting it."""
_SURVEY = f"""
SELECT s.tenant, s.key, s.name, s.changed, s.size > 0,
    s.size + coalesce(octet_length(p.data), 0)
        + coalesce((SELECT sum(octet_length(data)) FROM ebbtide.blob WHERE tenant = s.tenant AND key = s.key), 0),
    EXISTS (SELECT FROM ebbtide.lease l WHERE l.tenant = s.tenant AND l.key = s.key AND l.{_LEASE})
FROM ebbtide.session s LEFT JOIN ebbtide.checkpoint p ON p.session = s.id
WHERE %s IN (s.tenant, '{ALL_TENANTS}')
""".encode()  # noqa: S608 - only constants of ours are put together
_LOST = b"""
FROM ebbtide.blob WHERE %s IN (tenant, '*') AND NOT recorded AND saved < %s
"""


class Row(NamedTuple):
    """A session as it is removed."""

    tenant: str
    key: str
    name: str
    changed: float
    is_stored: bool
    """False if it was only locked."""
    bytes: int
    is_open: bool


def survey(connections: Connections, tenant: str) -> list[Row]:
    """The sessions of one tenant, or of all that this role may see."""
    with transaction(connections, tenant, "list the sessions in", read_only=True) as connection:
        rows = connection.execute(_SURVEY, (tenant,)).fetchall()
    return [
        Row(str(owner), str(key), from_column(name), float(str(at)), bool(stored), int(str(size)), bool(is_open))
        for owner, key, name, at, stored, size, is_open in rows
    ]


def choose(rows: Sequence[Row], *, older_than: float | None, max_bytes: int | None, now: float) -> list[Row]:
    """The sessions that `gc` would remove if nobody had them open."""
    used = sorted((row for row in rows if row.is_stored and now - row.changed > GRACE), key=lambda row: row.changed)
    old = [row for row in used if older_than is not None and now - row.changed > older_than]
    remaining = sum(row.bytes for row in rows) - sum(row.bytes for row in old)
    for row in used:
        if max_bytes is None or remaining <= max_bytes:
            break
        if row not in old:
            old.append(row)
            remaining -= row.bytes
    return old


def remove(connections: Connections, rows: Sequence[Row], *, force: bool = False, dry_run: bool = False) -> GcResult:
    """Remove sessions of any tenants, those of one tenant together. What was used since the survey stays."""
    sessions: list[str] = []
    blobs: list[str] = []
    freed = 0
    for tenant in dict.fromkeys(row.tenant for row in rows):
        mine = [row for row in rows if row.tenant == tenant]
        with transaction(connections, tenant, "delete sessions from", read_only=dry_run) as connection:
            for row in mine:
                where = (tenant, row.key)
                if not dry_run and not connection.execute(_DELETE, (*where, force, row.changed)).rowcount:
                    continue
                names = connection.execute(_BLOBS, where).fetchall()
                if not dry_run:
                    connection.execute("DELETE FROM ebbtide.blob WHERE tenant = %s AND key = %s", where)
                sessions.append(row.name)
                blobs += [str(name) for (name,) in names]
                freed += row.bytes
    return GcResult(sessions=tuple(sessions), blobs=tuple(blobs), freed=freed)


_DELETE = f"""
DELETE FROM ebbtide.session s WHERE tenant = %s AND key = %s AND (%s OR (changed = %s AND NOT EXISTS (
    SELECT FROM ebbtide.lease l WHERE l.tenant = s.tenant AND l.key = s.key AND l.{_LEASE}
)))
""".encode()  # noqa: S608 - only constants of ours are put together
_BLOBS = "SELECT name FROM ebbtide.blob WHERE tenant = %s AND key = %s ORDER BY name"


def remove_lost(connections: Connections, tenant: str, before: float, *, dry_run: bool) -> GcResult:
    """Remove results that no log names, and what sessions that were never stored left behind."""
    with transaction(connections, tenant, "delete results from", read_only=dry_run) as connection:
        rows = connection.execute(b"SELECT name, octet_length(data)" + _LOST, (tenant, before)).fetchall()
        if not dry_run:
            connection.execute(b"DELETE" + _LOST, (tenant, before))
            connection.execute(_EMPTY, (tenant,))
            connection.execute(_OLD_LEASES, (tenant,))
    return GcResult(blobs=tuple(str(name) for name, _ in rows), freed=sum(int(str(size)) for _, size in rows))


_EMPTY = f"""
DELETE FROM ebbtide.session WHERE (tenant, key) IN (
    SELECT s.tenant, s.key FROM ebbtide.session s WHERE %s IN (s.tenant, '*') AND s.size = 0 AND NOT EXISTS (
        SELECT FROM ebbtide.lease l WHERE l.tenant = s.tenant AND l.key = s.key AND l.{_LEASE}
    ) FOR UPDATE SKIP LOCKED
)
""".encode()  # noqa: S608 - only constants of ours are put together
_OLD_LEASES = f"DELETE FROM ebbtide.lease WHERE %s IN (tenant, '*') AND NOT {_LEASE}".encode()  # noqa: S608


def refuse_open(rows: Sequence[Row]) -> None:
    """Raise `StoreError` if a program has one of the sessions open."""
    for row in rows:
        if row.is_open:
            raise StoreError(f"{row.name} is open in a program: close that, or delete it by force")
