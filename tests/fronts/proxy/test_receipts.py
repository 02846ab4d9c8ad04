"""What `/ebb/receipts` says of a session: the figures that end `ebb run`."""

from __future__ import annotations

import pytest

from fronts.proxy.agent import PATHS, Agent
from fronts.proxy.proxy_runner import get, proxied
from upstream.finding import Body
from upstream.script import Part, Say, Use
from upstream.server import Upstream


@pytest.mark.parametrize("wire", PATHS)
def test_calls_that_open_what_was_saved_are_counted_on_every_format(wire, tmp_path):
    paths = ["src/a.py"]

    def script(_: Body) -> list[Part]:
        return [Say("Reading."), Use("read", {"path": paths[-1]})]

    with Upstream(script) as upstream, proxied(upstream.url, store=tmp_path) as running:
        agent = Agent(wire, running.port, upstream, lines=1)
        agent.turn(1)
        (receipt,) = get(running.port, "/ebb/receipts")[1]["receipts"]
        assert receipt["read_back"] == 0
        paths.append(f"/home/me/projects/p/{receipt['session']}/tool-results/call_1.txt")
        agent.turn(2)
        agent.turn(3)
        running.settle()
        (receipt,) = get(running.port, "/ebb/receipts")[1]["receipts"]

    assert (receipt["requests"], receipt["read_back"]) == (3, 2)
