"""The tables of the store, and how an older database gets them.

Every table has the tenant of its rows, and row-level security lets a transaction see only the tenant that it set. That
holds for the owner of the tables as well: it is the second wall, behind the `WHERE tenant` of each query.
"""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors, sql

from ebbtide.core.errors import BadConfig, StoreError

ALL_TENANTS: Final = "*"
"""As the tenant of a transaction: sees every row, if the role is the owner of the tables. To list and to clean up."""
_MIGRATION_LOCK = 0x0EBB_71DE
"""Any number will do; all versions must use the same."""

_TABLES = """
CREATE SEQUENCE ebbtide.fence;

CREATE TABLE ebbtide.session (
    tenant   text NOT NULL CHECK (tenant NOT IN ('', '*')),
    key      text NOT NULL, -- a hash of project and name, which may be too long for an index
    id       bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    project  text NOT NULL,
    name     text NOT NULL,
    size     bigint NOT NULL DEFAULT 0, -- bytes of the log; 0: it is not stored, only locked or begun
    lines    bigint NOT NULL DEFAULT 0,
    chain    text NOT NULL DEFAULT '0000000000000000', -- the checksum of the last line
    fence    bigint NOT NULL DEFAULT nextval('ebbtide.fence'), -- of the last lock
    changed  double precision NOT NULL DEFAULT 0, -- when the last commit was made, in seconds since 1970
    title    text NOT NULL DEFAULT '',
    prompt   text NOT NULL DEFAULT '',
    messages bigint NOT NULL DEFAULT 0,
    created  text NOT NULL DEFAULT '',
    modified text NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 70); -- room to update a row in its page: that touches no index
CREATE INDEX session_name ON ebbtide.session USING hash (name);

CREATE TABLE ebbtide.commit (
    session  bigint NOT NULL REFERENCES ebbtide.session (id) ON DELETE CASCADE,
    start    bigint NOT NULL, -- bytes of the log before it
    tenant   text NOT NULL,
    data     bytea NOT NULL, -- the lines of the commit, as in a log file
    PRIMARY KEY (session, start)
);

-- Not bound to the session's row: a blob is saved before the commit that makes that row visible.
CREATE TABLE ebbtide.blob (
    tenant   text NOT NULL CHECK (tenant NOT IN ('', '*')),
    key      text NOT NULL,
    name     text NOT NULL,
    sum      text NOT NULL, -- SHA-256
    saved    double precision NOT NULL DEFAULT extract(epoch FROM now()),
    recorded boolean NOT NULL DEFAULT false, -- whether a commit names it
    data     bytea NOT NULL,
    PRIMARY KEY (tenant, key, name)
);
CREATE INDEX blob_lost ON ebbtide.blob (saved) WHERE NOT recorded;

CREATE TABLE ebbtide.checkpoint (
    session  bigint PRIMARY KEY REFERENCES ebbtide.session (id) ON DELETE CASCADE,
    tenant   text NOT NULL,
    data     bytea NOT NULL
);

-- Who has a session open.
CREATE TABLE ebbtide.lease (
    tenant   text NOT NULL,
    key      text NOT NULL,
    holder   text NOT NULL,
    taken    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, key, holder)
);

CREATE FUNCTION ebbtide.sees(row_tenant text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT CASE current_setting('ebbtide.tenant', true)
        WHEN row_tenant THEN true
        WHEN '*' THEN pg_has_role(current_user, (
            SELECT relowner FROM pg_class WHERE oid = 'ebbtide.session'::regclass), 'MEMBER')
        ELSE false
    END
$$;

-- The projects of all sessions of this name: a request under a renewed token has its session's name, which nobody else
-- can know. It shows no content.
CREATE FUNCTION ebbtide.projects_of(session_name text) RETURNS SETOF text
    SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    before text := coalesce(current_setting('ebbtide.tenant', true), '');
BEGIN
    PERFORM set_config('ebbtide.tenant', '*', true);
    RETURN QUERY SELECT project FROM ebbtide.session WHERE name = session_name AND size > 0
        ORDER BY changed DESC LIMIT 16;
    PERFORM set_config('ebbtide.tenant', before, true);
END
$$;
REVOKE ALL ON FUNCTION ebbtide.projects_of(text) FROM PUBLIC;
"""
_SECURITY = "".join(
    f"""
ALTER TABLE ebbtide.{table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE ebbtide.{table} FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON ebbtide.{table} USING (ebbtide.sees(tenant)) WITH CHECK (ebbtide.sees(tenant));
"""
    for table in ("session", "commit", "blob", "checkpoint", "lease")
)
MIGRATIONS: Final = (_TABLES + _SECURITY,)
"""Each takes the schema from its number to the next. Never change one that was released: add another."""
_CREATE = """
CREATE SCHEMA IF NOT EXISTS ebbtide;
CREATE TABLE IF NOT EXISTS ebbtide.migration (
    number int PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now()
);
"""
_GRANTS = """
GRANT USAGE ON SCHEMA ebbtide TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON
    ebbtide.session, ebbtide.commit, ebbtide.blob, ebbtide.checkpoint, ebbtide.lease TO {role};
GRANT SELECT ON ebbtide.migration TO {role};
GRANT USAGE ON SEQUENCE ebbtide.fence TO {role};
GRANT EXECUTE ON FUNCTION ebbtide.projects_of(text) TO {role};
"""


def prepare_schema(connection: psycopg.Connection[tuple[object, ...]], label: str) -> None:
    """Create the tables, or bring older ones up to date. Raise `BadConfig` if this program cannot use them."""
    version = _read_version(connection)
    if version == len(MIGRATIONS):
        return
    if version > len(MIGRATIONS):
        raise BadConfig(
            f"store: {label} has tables of a newer Ebbtide (version {version}; this program knows "
            f"{len(MIGRATIONS)}). Update this program: pip install -U 'ebbtide[postgres]'"
        )
    try:
        _migrate(connection)
    except errors.InsufficientPrivilege as error:
        raise BadConfig(
            f"store: {label} has {'no tables' if not version else 'tables of an older version'} of Ebbtide, and "
            f"this role may not create them. Run 'ebb store setup URL --grant ROLE' as the owner of the database"
        ) from error


def grant(connection: psycopg.Connection[tuple[object, ...]], role: str) -> None:
    """Let a role that owns nothing read and write sessions, each transaction those of one tenant."""
    try:
        connection.execute(sql.SQL(_GRANTS).format(role=sql.Identifier(role)))
    except errors.UndefinedObject as error:
        raise StoreError(f"there is no role {role!r}: create it first, as with createuser {role}") from error


def _read_version(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    try:
        row = connection.execute("SELECT coalesce(max(number), 0) FROM ebbtide.migration").fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return 0
    assert row is not None
    return int(str(row[0]))


def _migrate(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Several programs may start at the same time: the first migrates, the others wait for it."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        connection.execute(_CREATE)
        for number in range(_read_version(connection), len(MIGRATIONS)):
            connection.execute(MIGRATIONS[number].encode())
            connection.execute("INSERT INTO ebbtide.migration (number) VALUES (%s)", (number + 1,))
