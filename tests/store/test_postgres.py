"""What only the store in PostgreSQL must do: keep tenants apart, hide the password, survive what a server does."""

import subprocess
import sys
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import errors

from ebbtide.core.errors import BadConfig, StoreError
from ebbtide.store import is_database, open_store, show_store
from ebbtide.store.postgres import schema
from ebbtide.store.postgres.connections import Address
from ebbtide.store.protocol import LockLost
from ebbtide.store.tenants import tenant_project
from postgres_server import MEMBER, OWNER
from store.stores import server

ALICE, BOB = "aaaaaaaaaaaa", "bbbbbbbbbbbb"
TABLES = ("session", "commit", "blob", "checkpoint", "lease")


@pytest.fixture
def url(tmp_path):
    return server().database_at(tmp_path)


@pytest.fixture
def empty(request):
    """A database without tables, and its address for a role."""
    name = f"e{abs(hash(request.node.name)):x}"
    with server().connect() as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}" OWNER {OWNER}')
    yield lambda role=OWNER: server().url(name, role)
    with server().connect() as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def as_member(url):
    return url.replace(OWNER, MEMBER)


def write_session(store, tenant):
    log = store.open(f"of {tenant}", project=tenant_project(tenant), now=1.0)
    with log.lock() as fence:
        log.save_blob("a.txt", "secret")
        end = log.commit([{"said": f"secret of {tenant}"}], at=1.0, fence=fence)
    log.write_checkpoint([{"state": "secret"}], end, "1")
    return log


# --- tenants ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [OWNER, MEMBER])
def test_a_transaction_sees_and_changes_only_the_rows_of_its_tenant(url, role):
    store = open_store(as_member(url))
    logs = [write_session(store, tenant) for tenant in (ALICE, BOB)]
    with psycopg.connect(url.replace(OWNER, role)) as connection:
        for table in TABLES:
            assert connection.execute(f"SELECT count(*) FROM ebbtide.{table}").fetchone() == (0,), "no tenant is set"
        connection.execute("SELECT set_config('ebbtide.tenant', %s, true)", (ALICE,))
        for table in TABLES:
            tenants = connection.execute(f"SELECT DISTINCT tenant FROM ebbtide.{table}").fetchall()
            assert tenants == [(ALICE,)]
            assert connection.execute(f"DELETE FROM ebbtide.{table} WHERE tenant = %s", (BOB,)).rowcount == 0
        stolen = "UPDATE ebbtide.session SET tenant = %s WHERE tenant = %s"
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(stolen, (BOB, ALICE))

    assert [log.read().records for log in logs] == [[{"said": f"secret of {tenant}"}] for tenant in (ALICE, BOB)]


def test_a_role_that_owns_nothing_never_sees_all_tenants(url):
    store = open_store(as_member(url))
    write_session(store, ALICE)
    with psycopg.connect(as_member(url)) as connection:
        connection.execute("SELECT set_config('ebbtide.tenant', '*', true)")
        assert connection.execute("SELECT count(*) FROM ebbtide.session").fetchone() == (0,)

    assert store.list_sessions() == []
    assert [info.session for info in open_store(url).list_sessions()] == [f"of {ALICE}"]


@pytest.mark.parametrize(
    "statement", ["DROP TABLE ebbtide.session", "ALTER TABLE ebbtide.blob DISABLE ROW LEVEL SECURITY"]
)
def test_a_role_that_owns_nothing_cannot_take_the_wall_down(url, statement):
    with psycopg.connect(as_member(url)) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement)


def test_two_tenants_may_have_sessions_of_the_same_name(url):
    alice, bob = (open_store(url, tenant=name) for name in ("alice", "bob"))
    alice.open("s", now=1.0).commit([{"of": "alice"}], at=1.0)
    bob.open("s", now=1.0).commit([{"of": "bob"}], at=1.0)

    assert [store.peek("s").read().records for store in (alice, bob)] == [[{"of": "alice"}], [{"of": "bob"}]]
    assert len(alice.list_sessions()) == 1
    alice.delete_tenant("alice", force=True)
    assert (alice.list_sessions(), len(bob.list_sessions())) == ([], 1)


def test_without_a_tenant_sessions_belong_to_the_role_that_connects(url):
    open_store(as_member(url)).open("s", now=1.0).commit([{"n": 1}], at=1.0)

    assert open_store(as_member(url), tenant="another").peek("s").read().records == []
    assert open_store(url, tenant=MEMBER).peek("s").read().records == [{"n": 1}]
    assert open_store(url).peek("s").read().records == [{"n": 1}], "the owner of the tables sees all"


def test_the_session_of_a_renewed_token_is_found_by_its_name_alone(url):
    """As a role that sees one tenant at a time."""
    store = open_store(as_member(url))
    write_session(store, ALICE)

    assert store.projects_of(f"of {ALICE}") == [tenant_project(ALICE)]
    assert store.projects_of("of") == []


# --- the schema -------------------------------------------------------------------------------------------------------


def test_programs_that_start_at_once_create_the_tables_once(empty):
    code = "import sys; from ebbtide.store import open_store; print(open_store(sys.argv[1]).list_sessions())"
    started = [subprocess.Popen([sys.executable, "-c", code, empty()], stdout=subprocess.PIPE) for _ in range(4)]

    assert [process.communicate(timeout=240)[0] for process in started] == [b"[]\n"] * 4
    with psycopg.connect(empty()) as connection:
        applied = connection.execute("SELECT number FROM ebbtide.migration").fetchall()
    assert applied == [(number + 1,) for number in range(len(schema.MIGRATIONS))]


def test_an_older_program_refuses_newer_tables_with_a_sentence(empty):
    open_store(empty()).check()
    with psycopg.connect(empty(), autocommit=True) as connection:
        connection.execute("INSERT INTO ebbtide.migration (number) VALUES (99)")

    with pytest.raises(BadConfig, match=r"newer Ebbtide \(version 99.*Update this program"):
        subprocess_store(empty())


def subprocess_store(url):
    """As a program that starts now: this one has looked at the tables already."""
    code = "import sys; from ebbtide.store import open_store; open_store(sys.argv[1]).list_sessions()"
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=240)
    assert done.returncode
    raise BadConfig(done.stderr.splitlines()[-1])


def test_a_role_that_may_not_create_tables_is_told_what_to_run(empty):
    with pytest.raises(BadConfig, match="ebb store setup"):
        open_store(empty(MEMBER)).check()


# --- the password -----------------------------------------------------------------------------------------------------


def test_the_password_is_in_no_error(url):
    shown = []
    store = open_store(url)
    for broken in (
        url.replace("/w", "/missing_w"),
        url.replace("host=/", "host=/nowhere/"),
        url.replace("secret%20word", "secret%20word%"),
        url + "&nonsense=1",
    ):
        with pytest.raises((StoreError, BadConfig)) as raised:
            open_store(broken).list_sessions()
        shown += [str(raised.value), repr(raised.value.__cause__), repr(raised.value.__context__)]
    shown += [repr(store), store.label, repr(Address.read(url)), show_store(url)]

    assert not [text for text in shown if "secret" in text]


def test_an_address_is_shown_without_its_secrets():
    url = "postgresql://me:hush@db.example:5432/ebb?sslpassword=hush&sslmode=require&password=hush"

    assert is_database(url)
    assert show_store(url) == "postgresql://me@db.example:5432/ebb?sslpassword=***&sslmode=***&password=***"
    assert show_store("/home/me/agents") == "/home/me/agents"


# --- what a server does -----------------------------------------------------------------------------------------------


def cut_connections(url):
    """As a restart or a failover does."""
    with server().connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            (psycopg.conninfo.conninfo_to_dict(url)["dbname"],),
        )


def test_idle_connections_that_the_server_has_cut_are_replaced(url):
    log = open_store(url).open("s", now=1.0)
    position = log.commit([{"n": 1}], at=1.0)
    cut_connections(url)

    assert log.read_since(position).records == []
    log.commit([{"n": 2}], at=1.0)
    assert [record["n"] for record in log.read().records] == [1, 2]


def test_a_holder_whose_connection_was_cut_cannot_commit_over_its_successor(url):
    paused, successor = (open_store(url).open("s", now=1.0) for _ in range(2))
    with paused.lock() as old:
        assert old
        cut_connections(url)
        with successor.lock() as new:
            successor.commit([{"by": "successor"}], at=1.0, fence=new)
        with pytest.raises(StoreError):
            paused.commit([{"by": "paused"}], at=1.0, fence=old)
        with pytest.raises(LockLost):
            paused.commit([{"by": "paused, again"}], at=1.0, fence=old)

    assert successor.read().records == [{"by": "successor"}]


def test_a_saved_result_outlives_the_commit_that_fails(url):
    log = open_store(url).open("s", now=1.0)
    with log.lock() as fence:
        log.save_blob("a.txt", "x")
        cut_connections(url)
        with pytest.raises(StoreError):
            log.commit([{"n": 1}], at=1.0, fence=fence)
    log.commit([{"n": 1}], at=1.0)

    assert log.read().records == [{"n": 1}]
    assert open_store(url).peek("s").read_blob("a.txt") == "x"
    assert log.verify().ok


REFUSALS = {
    "a standby": ("ALTER DATABASE {} SET default_transaction_read_only = on", "give the address of the primary"),
    "a full disk": (
        "CREATE FUNCTION ebbtide.fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;"
        "CREATE TRIGGER fail BEFORE INSERT ON ebbtide.commit FOR EACH ROW EXECUTE FUNCTION ebbtide.fail()",
        "disk is full",
    ),
    "a serialization failure": (
        "CREATE FUNCTION ebbtide.fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'; END $$;"
        "CREATE TRIGGER fail BEFORE INSERT ON ebbtide.commit FOR EACH ROW EXECUTE FUNCTION ebbtide.fail()",
        "could not serialize",
    ),
    "a statement that takes too long": (
        "CREATE FUNCTION ebbtide.fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;"
        "CREATE TRIGGER fail BEFORE INSERT ON ebbtide.commit FOR EACH ROW EXECUTE FUNCTION ebbtide.fail();"
        "ALTER DATABASE {} SET statement_timeout = '300ms'",
        "statement timeout",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_the_server_refuses_is_an_error_and_nothing_acknowledged_is_lost(empty, name):
    url, (change, reason) = empty(), REFUSALS[name]
    log = open_store(url).open("s", now=1.0)
    log.commit([{"n": 1}], at=1.0)
    database = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with server().connect(database) as connection:
        connection.execute(change.replace("{}", f'"{database}"'))
    cut_connections(url)

    with pytest.raises(StoreError, match=reason):
        log.commit([{"n": 2}], at=1.0)
    assert log.read().records == [{"n": 1}]

    with server().connect(database) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f'ALTER DATABASE "{database}" RESET ALL')
        connection.execute("DROP FUNCTION IF EXISTS ebbtide.fail() CASCADE")
    cut_connections(url)
    log.commit([{"n": 3}], at=1.0)
    assert log.read().records == [{"n": 1}, {"n": 3}]


def test_on_a_standby_no_lock_is_given_and_sessions_can_be_read(empty):
    open_store(empty()).open("s", now=1.0).commit([{"n": 1}], at=1.0)
    standby = empty() + "&options=-c%20default_transaction_read_only%3Don"
    log = open_store(standby).open("s", now=1.0)

    with log.lock(timeout=0.1) as fence:
        assert fence == 0
    assert log.read().records == [{"n": 1}]


def test_rows_changed_or_removed_by_hand_are_damage(url):
    log = open_store(url).open("s", project=tenant_project(ALICE), now=1.0)
    for number in range(3):
        log.commit([{"n": number, "pad": "x" * 50}], at=1.0)
    with server().connect(psycopg.conninfo.conninfo_to_dict(url)["dbname"]) as connection:
        connection.execute("DELETE FROM ebbtide.commit WHERE start = (SELECT max(start) FROM ebbtide.commit)")
        result = log.verify()
        assert not result.ok
        assert "committed" in result.problems[0]
        connection.execute("UPDATE ebbtide.commit SET data = overlay(data PLACING 'y' FROM 20) WHERE start = 0")

    assert {damage.kind for damage in log.verify().damage} >= {"altered"}


# --- the two walls ----------------------------------------------------------------------------------------------------

OF_BOB = {
    "session": (
        "INSERT INTO ebbtide.session (tenant, key, project, name) VALUES (%(bob)s, 'k', '', 'n')",
        "name = 'n'",
    ),
    "commit": ("INSERT INTO ebbtide.commit VALUES (%(id)s, 99, %(bob)s, '')", "data = ''"),
    "blob": ("INSERT INTO ebbtide.blob (tenant, key, name, sum, data) VALUES (%(bob)s, 'k', 'n', '', '')", "data = ''"),
    "checkpoint": ("INSERT INTO ebbtide.checkpoint VALUES (%(id)s, %(bob)s, '')", "data = ''"),
    "lease": ("INSERT INTO ebbtide.lease (tenant, key, holder) VALUES (%(bob)s, 'k', 'h')", "holder = 'h'"),
}


@pytest.mark.parametrize("tenant", [ALICE, "", "*"])
@pytest.mark.parametrize("table", TABLES)
def test_no_verb_reaches_a_row_of_another_tenant(url, table, tenant):
    """As the role of the proxies, with its own tenant, with none, and with the one that only the owner may use."""
    store = open_store(as_member(url))
    logs = [write_session(store, name) for name in (ALICE, BOB)]
    with server().connect(psycopg.conninfo.conninfo_to_dict(url)["dbname"]) as admin:
        [(id,)] = admin.execute("SELECT id FROM ebbtide.session WHERE tenant = %s", (BOB,)).fetchall()
        before = admin.execute(f"SELECT * FROM ebbtide.{table} WHERE tenant = %s ORDER BY 1, 2", (BOB,)).fetchall()
        insert, change = OF_BOB[table]
        with psycopg.connect(as_member(url), autocommit=True) as connection:
            connection.execute("SELECT set_config('ebbtide.tenant', %s, false)", (tenant,))
            mine = "tenant = %(bob)s OR true"
            assert connection.execute(f"SELECT count(*) FROM ebbtide.{table} WHERE tenant = %s", (BOB,)).fetchone() == (
                0,
            )
            counts = [
                connection.execute(f"UPDATE ebbtide.{table} SET {change} WHERE tenant = %s", (BOB,)).rowcount,
                connection.execute(f"DELETE FROM ebbtide.{table} WHERE tenant = %s", (BOB,)).rowcount,
                connection.execute(f"SELECT FROM ebbtide.{table} WHERE {mine} FOR UPDATE", {"bob": BOB}).rowcount,
            ]
            for refused in (insert, f"TRUNCATE ebbtide.{table}"):
                with pytest.raises(errors.InsufficientPrivilege):
                    connection.execute(refused, {"bob": BOB, "id": id} if "%" in refused else None)
            connection.execute("SET row_security = off")
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM ebbtide.{table}")
        after = admin.execute(f"SELECT * FROM ebbtide.{table} WHERE tenant = %s ORDER BY 1, 2", (BOB,)).fetchall()

    assert counts == [0, 0, 1 if tenant == ALICE else 0]
    assert after == before != []
    assert [log.verify().ok for log in logs] == [True, True]


@pytest.mark.parametrize(
    "statement",
    [
        f"SET ROLE {OWNER}",
        "CREATE TABLE ebbtide.mine (n int)",
        "CREATE OR REPLACE FUNCTION ebbtide.sees(row_tenant text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "DROP POLICY tenant ON ebbtide.session",
        "CREATE POLICY mine ON ebbtide.session USING (true)",
        "INSERT INTO ebbtide.migration (number) VALUES (99)",
        "SELECT setval('ebbtide.fence', 1)",
        f"GRANT {OWNER} TO {MEMBER}",
    ],
)
def test_the_role_of_the_proxies_cannot_become_more(url, statement):
    with psycopg.connect(as_member(url), autocommit=True) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement)


def test_the_first_wall_holds_alone(empty):
    """Every query names its tenant: without row-level security two tenants are as far apart as with it."""
    open_store(empty()).check()
    with psycopg.connect(empty(), autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE ebbtide.{table} NO FORCE ROW LEVEL SECURITY")
            connection.execute(f"ALTER TABLE ebbtide.{table} DISABLE ROW LEVEL SECURITY")
    alice, bob = (open_store(empty(), tenant=name) for name in ("alice", "bob"))
    logs = {}
    for store, name in ((alice, "alice"), (bob, "bob")):
        logs[name] = log = store.open("s", now=1.0)
        with log.lock() as fence:
            log.save_blob("a.txt", f"of {name}")
            end = log.commit([{"of": name}], at=1.0, fence=fence)
        log.write_checkpoint([{"state of": name}], end, "1")

    for store, name in ((alice, "alice"), (bob, "bob")):
        restored = []
        log = store.peek("s")
        log.resume(restored.extend, "1")
        assert (log.read().records, restored) == ([{"of": name}], [{"state of": name}])
        assert log.read_blob("a.txt") == f"of {name}"
        assert [len(log.list_blobs()), len(store.list_sessions()), log.verify().ok] == [1, 1, True]
    store = open_store(empty(), tenant="carol")
    assert (store.list_sessions(), store.peek("s").read().records) == ([], [])
    store.gc(older_than=0.0, now=1e12)
    with pytest.raises(StoreError):
        store.delete_session("s", force=True)
    alice.delete_session("s", force=True)
    assert logs["bob"].read().records == [{"of": "bob"}]
    assert logs["bob"].read_blob("a.txt") == "of bob"


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_lock_that_another_process_holds_is_waited_for_as_long_as_is_said(url):
    holder, other = (open_store(url).open("s", now=1.0) for _ in range(2))
    holder.commit([{"n": 1}], at=1.0)
    with holder.lock() as fence, other.lock(timeout=0.05) as none:
        assert fence
        assert none == 0
        assert other.read().records == [{"n": 1}], "readers never wait"
    with other.lock() as fence:
        assert fence


def test_when_all_connections_are_in_use_others_are_told_and_go_on_later(url):
    store = open_store(url)
    logs = [store.open(f"s{n}", now=1.0) for n in range(18)]
    with ExitStack() as held:
        fences = [held.enter_context(log.lock(timeout=0.05)) for log in logs]
        with pytest.raises(StoreError, match="connections of this process are in use"):
            store.connections.take("lock", timeout=0.01)
        assert logs[0].read().records == [], "reading needs none of these connections"
    with logs[-1].lock() as fence:
        logs[-1].commit([{"n": 1}], at=1.0, fence=fence)

    assert [bool(fence) for fence in fences] == [True] * 16 + [False] * 2
    assert logs[-1].read().records == [{"n": 1}]
