"""Faults of the provider, through the real proxy: streams that break at events and at bytes.

The upstream sends scripted bytes. What a client must get follows from the script alone: all bytes before the fault, and
the end of the stream only if the upstream sent one.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.sessions import Body, Story, Tally

from ebbtide.store.directory.verify import verify_log
from fronts.proxy.agent import KEYS, MODELS, PATHS
from fronts.proxy.proxy_runner import Running, options
from upstream import events, render
from upstream.caching import CacheBill
from upstream.check import refusals_bytes
from upstream.prefix import tokens, units
from upstream.script import Part, Say, Think, Use

PATIENCE = 60.0
"""Seconds in which an answer must end after the upstream has ended: a busy machine is slow."""
STALL = 0.05
"""Seconds of silence before a cut."""
FAULTS = ("cut", "stall", "garbage", "twice", "length")
AT_ONCE = 16
"""Exchanges under way: stalls are waited for together."""
WINDOW, RECORDED_WINDOW = 24_000, 100_000
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    wire: str
    request: Body
    events: list[bytes]

    @property
    def whole(self) -> bytes:
        return b"".join(self.events)


def streams(count: int, rng: random.Random) -> list[Stream]:
    """Answers in every API format: thinking, text in two languages, none to three calls."""
    found = []
    for number in range(count):
        wire = list(PATHS)[number % len(PATHS)]
        request = _request(wire, number, rng)
        parts: list[Part] = [] if wire == "openai_chat" or number % 4 == 3 else [Think(f"先想一想 {number} " * 3)]
        parts.append(Say(f"step {number}: 先运行测试 🙂 " * rng.randrange(1, 8)))
        parts += [Use("read", {"path": f"src/f{one}.py", "n": [1, one]}) for one in range(number % 3)]
        billed = CacheBill(fresh=100)
        response = render.answer(wire, request, parts, billed, number)
        found.append(Stream(wire=wire, request=request, events=events.stream(wire, request, response)))
    return found


def _request(wire: str, number: int, rng: random.Random) -> Body:
    said = [{"role": "user", "content": f"Go on with part {number}. " + "look at the queue " * rng.randrange(4, 400)}]
    more: Body = {"stream": True}
    more |= {"max_tokens": 2_000, "thinking": {"type": "adaptive"}} if wire == "anthropic" else {}
    more |= {"stream_options": {"include_usage": True}} if wire == "openai_chat" else {}
    more |= {"store": False} if wire == "openai_responses" else {}
    return {"model": MODELS[wire], KEYS[wire]: said, **more}


@dataclass(frozen=True, slots=True)
class Played:
    """What the upstream does, and what a client must get."""

    steps: Sequence[bytes | float]
    """Bytes to send and seconds to wait; then the connection is closed."""
    expected: bytes
    ends_well: bool


def _chunk(piece: bytes) -> bytes:
    return f"{len(piece):x}\r\n".encode() + piece + b"\r\n" if piece else b""


def played(fault: str, stream: Stream, at: int, rng: random.Random) -> Played:
    """The stream with this fault at this byte."""
    whole = stream.whole
    chunked = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    before, after = whole[:at], whole[at:]
    if fault == "cut":
        return Played([chunked, _chunk(before)], before, False)
    if fault == "stall":
        return Played([chunked, _chunk(before), STALL], before, False)
    if fault == "garbage":
        noise = rng.randbytes(rng.randrange(1, 60))
        return Played([chunked, _chunk(before + noise + after), b"0\r\n\r\n"], before + noise + after, True)
    if fault == "twice":
        event = rng.choice(stream.events)
        return Played(
            [chunked, _chunk(before), _chunk(event), _chunk(after), b"0\r\n\r\n"], before + event + after, True
        )
    # The header announces more bytes than are sent, or fewer.
    if at % 2:
        return Played([_HEAD + b"Content-Length: %d\r\n\r\n" % (len(whole) + 7), before], before, False)
    return Played([_HEAD + b"Content-Length: %d\r\n\r\n" % len(before), whole], before, True)


class Upstream:
    """Answers each request with the script that its header `x-play` names, and keeps the request."""

    def __init__(self) -> None:
        self.plays: dict[str, Played] = {}
        self.bodies: dict[str, bytes] = {}

    async def __aenter__(self) -> Upstream:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            told = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(told.get("content-length", "0")))
            self.bodies[told["x-play"]] = body
            for step in self.plays[told["x-play"]].steps:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    writer.write(step)
                    await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the proxy closed first
        finally:
            writer.close()


async def ask(port: int, wire: str, body: bytes, play: str, session: str) -> tuple[int, bytes, bool]:
    """Return status, bytes, and whether the answer ended as HTTP requires. A client library might hide that."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        head = f"POST {PATHS[wire]} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += f"X-Api-Key: sk-1\r\nX-Session-Id: {session}\r\nX-Play: {play}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        told = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        status = int(lines[0].split()[1])
        if "content-length" in told:
            want = int(told["content-length"])
            got = await _up_to(reader, want)
            return status, got, len(got) == want
        return status, *await _chunks(reader)
    except (ConnectionError, asyncio.IncompleteReadError):
        return 0, b"", False
    finally:
        writer.close()


async def _up_to(reader: asyncio.StreamReader, want: int) -> bytes:
    try:
        return await reader.readexactly(want)
    except asyncio.IncompleteReadError as cut:
        return cut.partial


async def _chunks(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    got = b""
    try:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            got += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
    except asyncio.IncompleteReadError as cut:
        return got + cut.partial.rstrip(b"\r\n") if not cut.partial.endswith(b"\r\n") else got, False
    except (ConnectionError, ValueError):
        return got, False
    return got, True


def positions(stream: Stream, count: int, rng: random.Random) -> list[int]:
    """Return every boundary between two events, and this many bytes."""
    boundaries, at = [], 0
    for event in stream.events[:-1]:
        at += len(event)
        boundaries.append(at)
    return [0, *boundaries, *(rng.randrange(1, len(stream.whole)) for _ in range(count))]


def _is_refusal(status: int, got: bytes, ended: bool) -> bool:
    """Whether the client gets a readable error."""
    return status >= 500 and ended and b"ebb proxy: " in got and "message" in json.loads(got).get("error", {})


class Trial:
    """One proxy and one upstream, and every stream's exchanges through them."""

    def __init__(self, upstream: Upstream, port: int, tally: Tally, rng: random.Random, window: int) -> None:
        self.upstream, self.port, self.tally, self.rng, self.window = upstream, port, tally, rng, window
        self.valid: set[bytes] = set()
        self.tolerated: set[str] = set()
        """Rules that the client's own request breaks."""
        self.number = 0

    async def all_of(self, stream: Stream, session: str, count: int, faults: Sequence[str]) -> None:
        raw = json.dumps(stream.request).encode()
        self.tolerated = {one.rule for one in refusals_bytes(stream.wire, raw)}
        plays = [(fault, at) for fault in faults for at in positions(stream, count, self.rng)]
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(fault: str, at: int) -> None:
            async with gate:
                await self.exchange(stream, raw, session, fault, at)

        for begin in range(0, len(plays), 200):
            await asyncio.gather(*(one(*play) for play in plays[begin : begin + 200]))
            await self.good(stream, raw, session)

    async def exchange(self, stream: Stream, raw: bytes, session: str, fault: str, at: int) -> None:
        where = f"{stream.wire} {session}, {fault} at byte {at} of {len(stream.whole)}"
        play, name = played(fault, stream, at, self.rng), self._name()
        self.upstream.plays[name] = play
        self.tally.points += 1
        self.tally.requests += 1
        try:
            async with asyncio.timeout(PATIENCE):
                status, got, ended = await ask(self.port, stream.wire, raw, name, session)
        except TimeoutError:
            self.tally.count("hung", where, "no end of the answer")
            return
        self._check_sent(stream.wire, name, where)
        if _is_refusal(status, got, ended):
            self.tally.refused += 1
        elif play.expected and play.ends_well:
            if (status, got, ended) != (200, play.expected, True):
                self.tally.count(
                    "cut", where, f"status {status}, {len(got)} of {len(play.expected)} bytes, end {ended}"
                )
        elif status == 200 and ended and not play.ends_well:
            self.tally.count("silent", where, "an answer that broke off ends as if it were whole")
        elif status == 200 and not play.expected.startswith(got):
            self.tally.count("cut", where, "other bytes than the upstream sent")

    async def good(self, stream: Stream, raw: bytes, session: str) -> None:
        """Check that the session continues: send the same request again and get its whole answer."""
        where, name = f"{stream.wire} {session}, afterwards", self._name()
        head = _HEAD + b"Content-Length: %d\r\n\r\n" % len(stream.whole)
        self.upstream.plays[name] = Played([head, stream.whole], stream.whole, True)
        self.tally.requests += 1
        try:
            async with asyncio.timeout(PATIENCE):
                told = await ask(self.port, stream.wire, raw, name, session)
        except TimeoutError:
            self.tally.count("hung", where, "no answer after faults")
            return
        if told != (200, stream.whole, True):
            self.tally.count("unusable", where, f"status {told[0]}, {len(told[1])} bytes, end {told[2]}")
        self._check_sent(stream.wire, name, where)

    def _name(self) -> str:
        self.number += 1
        return str(self.number)

    def _check_sent(self, wire: str, name: str, where: str) -> None:
        body = self.upstream.bodies.pop(name, None)
        if body is None or body in self.valid:
            return
        found = {one.rule for one in refusals_bytes(wire, body)} - self.tolerated
        if found:
            self.tally.count("invalid", where, sorted(found))
        elif (length := tokens(units(wire, json.loads(body)))) > self.window:
            self.tally.count("over", where, f"{length} of {self.window}")
        else:
            self.valid.add(body)


def upstream_faults(count: int, positions_each: int, seed: int, tell: Callable[[int], None]) -> Tally:
    """Break this many streams at every event boundary and at this many bytes, with every fault."""
    rng = random.Random(seed)
    talks = [(stream, f"talk-{seed}-{number}") for number, stream in enumerate(streams(count, rng))]
    return _through_a_proxy(talks, positions_each, WINDOW, rng, tell)


def recorded_faults(stories: Sequence[Story], positions_each: int, seed: int, tell: Callable[[int], None]) -> Tally:
    """Requests of recorded sessions, answered by streams that break at every event boundary."""
    rng, talks = random.Random(seed), []
    for number, story in enumerate(stories):
        request = {**story.requests[-1], "stream": True}
        parts: list[Part] = [Say("step by step " * 3), Use("read", {"path": "src/f.py"})]
        response = render.answer(
            story.wire, {**request, "model": MODELS[story.wire]}, parts, CacheBill(fresh=100), number
        )
        spelled = events.stream(story.wire, request, response)
        talks.append((Stream(wire=story.wire, request=request, events=spelled), f"recorded-{number}"))
    return _through_a_proxy(talks, positions_each, RECORDED_WINDOW, rng, tell)


def _through_a_proxy(
    talks: Sequence[tuple[Stream, str]],
    positions_each: int,
    window: int,
    rng: random.Random,
    tell: Callable[[int], None],
) -> Tally:
    tally = Tally()
    place = Path(tempfile.mkdtemp(prefix="ebb-faults-"))

    async def trial() -> None:
        async with Upstream() as upstream:
            with Running(options(f"http://127.0.0.1:{upstream.port}", store=str(place), window=window)) as running:
                made = Trial(upstream, running.port, tally, rng, window)
                for stream, session in talks:
                    await made.all_of(stream, session, positions_each, FAULTS)
                    tell(tally.points)
                await asyncio.to_thread(running.settle)

    try:
        asyncio.run(trial())
        for path in place.rglob("*.jsonl"):
            found = verify_log(path)
            if not found.ok:
                tally.count("lost", path.name, found.problems or found.damage)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return tally
