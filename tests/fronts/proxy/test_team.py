"""The page "Run it for a team" and its example: the commands work, and the parts run together as processes."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from scripts.reference import parsers

from ebbtide.fronts.cli.command_line import command_line
from ebbtide.store import open_store
from fronts.proxy.balancer import HAPROXY, balanced, configuration
from fronts.proxy.proxy_runner import WAIT, exchange, until
from fronts.proxy.raw_upstream import RawUpstream
from store.stores import server

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE, PAGE = ROOT / "examples/team", ROOT / "docs/how-to/team.md"
TOKEN = "a token of 24 characters"
NAMES = {name: f"{name}_{os.getpid()}" for name in ("ebb_owner", "ebb_proxy", "ebbtide", "restored")}
KINDS = [
    pytest.param("haproxy", marks=pytest.mark.skipif(not HAPROXY, reason="HAProxy is not installed")),
    "in turn",
]


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((EXAMPLE / "compose.yaml").read_text(encoding="utf-8"))


# --- the example ------------------------------------------------------------------------------------------------------


def test_the_compose_file_names_only_what_exists(compose):
    services = compose["services"]
    assert set(compose) <= {"name", "services", "volumes", "x-proxy"}
    for service in services.values():
        assert ("image" in service) != ("build" in service)
        if build := service.get("build"):
            context = (EXAMPLE / build["context"]).resolve()
            assert (context / "pyproject.toml").is_file()
            assert (context / build["dockerfile"]).is_file()
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            assert (EXAMPLE / source).is_file() if source.startswith(".") else source in compose["volumes"]
        after = service.get("depends_on", {})
        for name in after:
            condition = after[name]["condition"] if isinstance(after, dict) else "service_started"
            assert ("healthcheck" in services[name]) or condition != "service_healthy"
    assert len([name for name in services if name.startswith("proxy")]) == 2


def test_the_example_asks_for_every_variable_that_it_uses():
    used = set(re.findall(r"\$\{(\w+)", (EXAMPLE / "compose.yaml").read_text(encoding="utf-8")))
    offered = set(re.findall(r"^(\w+)=", (EXAMPLE / "env.example").read_text(encoding="utf-8"), re.MULTILINE))

    assert used == offered


def test_the_commands_of_the_compose_file_parse_and_proxies_may_end_their_streams(compose):
    own = parsers()
    for service in compose["services"].values():
        command = service.get("command")
        if not command:
            continue
        assert command[0] == "ebb"
        parser = own.get(command[1])
        args = parser.parse_args(command[2:]) if parser else command_line().parse_args(command[1:])
        if command[1] == "proxy":
            assert int(service["stop_grace_period"].rstrip("s")) > args.drain


@pytest.mark.skipif(not shutil.which("docker"), reason="Docker is not installed")
def test_docker_accepts_the_compose_file():
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("Docker has no compose here")
    command = ["docker", "compose", "--env-file", "env.example", "config", "--quiet"]
    filled = {"EBB_OWNER_PASSWORD": "x", "EBB_PROXY_PASSWORD": "x", "EBB_PROXY_TOKEN": TOKEN}
    done = subprocess.run(command, cwd=EXAMPLE, env={**os.environ, **filled}, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not HAPROXY, reason="HAProxy is not installed")
def test_haproxy_accepts_its_configuration(tmp_path):
    (tmp_path / "haproxy.cfg").write_text(configuration((1, 2), 3), encoding="utf-8")
    command = [HAPROXY, "-c", "-f", tmp_path / "haproxy.cfg"]
    done = subprocess.run(command, env={**os.environ, "EBB_PROXY_TOKEN": TOKEN}, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


# --- the page ---------------------------------------------------------------------------------------------------------


def commands(title="Set it up"):
    """Of a section, for the server of the tests."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {title}")[2]
    block = re.search(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]
    for name, here in NAMES.items():
        block = re.sub(rf"\b{name}\b(?!\.dump)", here, block)
    address = re.sub(r"@db\.example/(\w+)", rf"@/\1?host={server().socket}", block)
    return address.replace("0.0.0.0", "127.0.0.1").splitlines()


@pytest.fixture(scope="module")
def database():
    """The address for the proxies, set up by the page's own commands; and how it starts a proxy."""
    *first, proxy = commands()
    assert len(first) == 4
    environment = {**os.environ, "PGHOST": server().socket, "PGUSER": "postgres", "EBB_PROXY_TOKEN": TOKEN}
    environment["PATH"] = f"{server().bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    try:
        for command in first:
            done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, timeout=WAIT)
            assert done.returncode == 0, (command, done.stderr)
        yield proxy, environment
    finally:
        with server().connect() as connection:
            for name in ("ebbtide", "restored"):
                connection.execute(f'DROP DATABASE IF EXISTS "{NAMES[name]}" WITH (FORCE)')
            for name in ("ebb_proxy", "ebb_owner"):
                connection.execute(f'DROP ROLE IF EXISTS "{NAMES[name]}"')


class ProxyProcess:
    def __init__(self, stack, database, upstream):
        command, self.environment = database
        words = [*shlex.split(command), "--upstream", upstream, "--port", "0", "--announce"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, env=self.environment, text=True)
        stack.callback(self.process.communicate)
        stack.callback(self.process.kill)
        self.port = int(json.loads(self.process.stdout.readline())["listening"].rpartition(":")[2])

    def is_ready(self):
        """As the container is asked."""
        environment = {**self.environment, "EBB_PORT": str(self.port)}
        done = subprocess.run([sys.executable, EXAMPLE / "ready.py"], env=environment, capture_output=True)
        return done.returncode == 0

    def requests(self):
        page = exchange(self.port, "GET", "/ebb/summary", headers={"x-ebb-token": TOKEN})[2]
        return json.loads(page)["requests"]


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
PIECE = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
END = b"data: [DONE]\n\n"


def ask(port, n, key="alice"):
    messages = [{"role": ("user", "assistant")[i % 2], "content": f"line {i}"} for i in range(2 * n + 1)]
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}", "x-ebb-token": TOKEN}
    body = json.dumps({"model": "gpt-5", "stream": True, "messages": messages}).encode()
    return exchange(port, "POST", "/v1/chat/completions", body, headers)


@pytest.mark.parametrize("kind", KINDS)
def test_two_proxies_behind_a_balancer_share_a_session_and_one_may_go(database, kind, tmp_path):
    def answer(_, request):
        if b"line 20" in request.body:  # streams until the proxy has been asked to stop
            return [HEAD + PIECE, *([0.05] * 40), PIECE + END, "close"]
        return [HEAD + PIECE + END, "close"]

    with RawUpstream(answer) as upstream, ExitStack() as stack:
        proxies = [ProxyProcess(stack, database, upstream.url) for _ in range(2)]
        for proxy in proxies:
            until(proxy.is_ready)
        port = stack.enter_context(balanced([proxy.port for proxy in proxies], kind, tmp_path, TOKEN))
        until(lambda: answers(port))

        statuses = [ask(port, n)[0] for n in range(10)]
        both = [proxy.requests() for proxy in proxies]
        streams = []
        clients = [threading.Thread(target=lambda: streams.append(ask(port, 10))) for _ in range(2)]
        for client in clients:
            client.start()
        until(lambda: sum(b"line 20" in request.body for request in upstream.seen) == 2)
        proxies[0].process.send_signal(signal.SIGTERM)
        for client in clients:
            client.join(WAIT)
        until(lambda: not proxies[0].is_ready())
        after = [ask(port, n)[0] for n in range(11, 15)]
        assert proxies[0].process.wait(WAIT) == 0

    assert statuses == [200] * 10
    assert min(both) > 0
    assert [(status, data.endswith(END)) for status, _, data in streams] == [(200, True)] * 2
    assert after == [200] * 4


def answers(port):
    try:
        return exchange(port, "GET", "/readyz", headers={"x-ebb-token": TOKEN})[0] == 200
    except OSError:
        return False


def test_the_data_of_one_person_goes_and_that_of_others_stays(database):
    """By the page's own command, as the owner."""
    proxy, environment = database
    address = next(word for word in shlex.split(proxy) if word.startswith("postgresql://"))
    owner = address.replace(NAMES["ebb_proxy"], NAMES["ebb_owner"])
    with RawUpstream(lambda *_: [HEAD + PIECE + END, "close"]) as upstream, ExitStack() as stack:
        started = ProxyProcess(stack, database, upstream.url)
        until(started.is_ready)
        for key in ("bob", "carol"):
            assert ask(started.port, 1, key)[0] == 200
        until(lambda: len(open_store(owner).list_sessions()) >= 2)
        started.process.send_signal(signal.SIGTERM)
        started.process.wait(WAIT)
    before = open_store(owner).list_sessions()
    gone = before[0].project

    command = [sys.executable, "-m", "ebbtide", "delete", "--tenant", gone.removeprefix("proxy-"), "--yes"]
    done = subprocess.run([*command, "--store", owner], env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert open_store(owner).list_sessions() == [info for info in before if info.project != gone]


def test_a_backup_has_all_sessions_and_verifies(database, tmp_path):
    proxy, environment = database
    address = next(word for word in shlex.split(proxy) if word.startswith("postgresql://"))
    for tenant in ("dave", "erin"):
        log = open_store(address, tenant=tenant).open("nightly", now=1.0)
        log.save_blob("a.txt", "saved")
        log.commit([{"n": 1}], at=1.0)
    before = open_store(address.replace(NAMES["ebb_proxy"], NAMES["ebb_owner"])).list_sessions()

    for command in commands("Back it up"):
        done = subprocess.run(
            command, shell=True, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT
        )
        assert done.returncode == 0, (command, done.stderr)

    restored = command.rpartition(" ")[2]
    assert open_store(restored).list_sessions() == before
    for tenant in ("dave", "erin"):
        assert open_store(restored, tenant=tenant).peek("nightly").read_blob("a.txt") == "saved"
