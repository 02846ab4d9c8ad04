"""Real clients behind `ebb run`, against a scripted provider: the table of docs/explanation/clients.md.

    python -m scripts.install_clients --into ~/clients
    python -m benchmarks.clients --into ~/clients                    all that are installed
    python -m benchmarks.clients --into ~/clients claude codex       some
    python -m benchmarks.clients --into ~/clients --write            keep the results, and write the page from them

Each client reads 40 files, one after another, with its own tools, in a window that these fill several times: once by
itself and once behind `ebb run`, both with the address in its own settings. Then it is asked to open what left. The
provider is a server of its own that checks every request by its own reading of the rules and counts by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.client_programs import CLIENTS, Client, GuidedWalk, Opening, shell_of  # noqa: E402
from scripts.install_clients import default_place, found, version  # noqa: E402

from clients.guided_provider import DONE, file_name, sent, text, tokens_of  # noqa: E402
from clients.programs import environment  # noqa: E402
from upstream.provider import Exchange  # noqa: E402
from upstream.server import Upstream  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "clients.json"
PAGE = ROOT / "docs" / "explanation" / "clients.md"
LINES = 170
PATIENCE = 240.0
"""Seconds for one run."""
_ROW = re.compile(r"\d\d-\d{4} gauge station-\d+ reads \d+ mm")


@dataclass(slots=True)
class Result:
    """What one run came to."""

    exit_code: int = -1
    is_done: bool = False
    calls: int = 0
    """Files that the client read and showed to the model."""
    accepted: int = 0
    over: int = 0
    invalid: int = 0
    largest: int = 0
    breaks: int = 0
    folds: int = 0
    opened: list[str] = field(default_factory=list)
    is_right_host: bool = False
    is_right_summary: bool = False
    start_line: str = ""
    end_lines: list[str] = field(default_factory=list)
    seconds: float = 0.0


def run_client(client: Client, file: Path, *, is_behind: bool) -> tuple[Result, str]:
    """Return the result, and what was printed."""
    with tempfile.TemporaryDirectory(prefix="ebb-clients-", dir=_outside_tmp()) as folder:
        work, home = Path(folder, "work"), Path(folder, "home")
        work.mkdir()
        home.mkdir()
        for part in range(1, client.calls + 1):
            (work / file_name(part)).write_text(text(part, LINES), encoding="utf-8")
        walk = GuidedWalk(client, opens=is_behind)
        with Upstream(walk, window=client.window) as upstream:
            started = client.start(file, upstream.url, home)
            command = [*_ebb(client, folder), *started.command] if is_behind else started.command
            begin = time.monotonic()
            code, output, errors = _run(command, environment(home, started.environ), work, started.stdin)
            result = _judge(client, walk, upstream.requests, output)
            result.exit_code, result.seconds = code, round(time.monotonic() - begin, 1)
            result.is_done = code == 0 and result.is_done
            if is_behind:
                _judge_lines(result, errors.splitlines(), upstream)
        return result, f"{output[-1500:]}\n{errors[-1500:]}"


def _outside_tmp() -> str:
    """Some clients refuse to keep their files in /tmp."""
    place = Path.home() / ".cache" / "ebbtide-benchmark"
    place.mkdir(parents=True, exist_ok=True)
    return str(place)


def _ebb(client: Client, folder: str) -> list[str]:
    store = str(Path(folder, "store"))
    return [sys.executable, "-m", "ebbtide", "run", "--window", str(client.window), "--store", store, "--"]


def _run(command: Sequence[str], environ: Mapping[str, str], work: Path, stdin: str) -> tuple[int, str, str]:
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as errors,
        tempfile.TemporaryFile("w+") as keys,
    ):
        keys.write(stdin)
        keys.seek(0)
        process = subprocess.Popen(
            list(command), cwd=work, env=dict(environ), stdin=keys, stdout=out, stderr=errors, start_new_session=True
        )
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = -1
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for stream in (out, errors):
            stream.seek(0)
        return code, out.read(), errors.read()


def _judge(client: Client, walk: GuidedWalk, requests: Sequence[Exchange], output: str) -> Result:
    lane = [one for one in requests if not client.has_tools or shell_of(one.parsed)]
    accepted = [one for one in lane if one.usage]
    refused = [one for one in requests if one.refused]
    over = [one for one in refused if tokens_of(one) > client.window]
    texts = [sent(one) for one in accepted]
    bodies = [one.raw.decode("utf-8", "replace") for one in accepted]
    calls = sum(any(f"{part:02}-0000 gauge" in body for body in bodies) for part in range(1, client.calls + 1))
    has_said_so = DONE in output or client.name == "mini" or not client.has_tools
    return Result(
        is_done=has_said_so and calls == client.calls and not refused,
        calls=calls,
        accepted=len(accepted),
        over=len(over),
        invalid=len(refused) - len(over),
        largest=max((tokens_of(one) for one in accepted), default=0),
        breaks=sum(texts[n][: len(texts[n - 1])] != texts[n - 1] for n in range(1, len(texts))),
        opened=[_describe_opening(opening, accepted) for opening in walk.openings],
    )


def _describe_opening(opening: Opening, accepted: Sequence[Exchange]) -> str:
    """Say how much of the file came back: rows of the file among the newest blocks of the next request."""
    how = "by tool" if opening.name.startswith("ebb:") else "by command"
    if opening.request >= len(accepted):
        return f"{opening.kind} {how}: the client stopped"
    before, after = (sent(accepted[number]) for number in (opening.request - 1, opening.request))
    rows = len(set(_ROW.findall("\n".join(unit for unit in after if unit not in before))))
    return f"{opening.kind} {how}: {rows} rows" + (", whole" if opening.kind == "result" and rows == LINES else "")


def _judge_lines(result: Result, lines: list[str], upstream: Upstream) -> None:
    result.start_line = next((line for line in lines if "-> ebbtide ->" in line or "without Ebbtide" in line), "")
    starts = [
        n for n, line in enumerate(lines) if re.search(r"ebb run: .*(conversation|no request|do(es)? not answer)", line)
    ]
    result.end_lines = lines[starts[-1] :] if starts else []
    answered = sum(bool(one.usage) for one in upstream.requests)
    end = "\n".join(result.end_lines)
    count = re.search(r"ebb run: ([\d,]+) requests? in", end)
    result.is_right_summary = bool(count and int(count[1].replace(",", "")) == answered)
    result.is_right_host = f"127.0.0.1:{upstream.port}" in result.start_line and result.accepted > 0
    folds = re.search(r"(\d+) of them compactions", end)
    result.folds = int(folds[1]) if folds else 0


def measure(client: Client, file: Path) -> dict[str, object]:
    direct, _ = run_client(client, file, is_behind=False)
    behind, printed = run_client(client, file, is_behind=True)
    print(row({"direct": asdict(direct), "behind": asdict(behind), "label": client.label, "window": client.window}))
    print("  " + "\n  ".join([behind.start_line, *behind.end_lines]), flush=True)
    if not behind.is_done:
        print(printed)
    return {
        "label": client.label,
        "version": version(client.name, file),
        "window": client.window,
        "calls": client.calls,
        "load": round(os.getloadavg()[0], 1),
        "direct": asdict(direct),
        "behind": asdict(behind),
    }


def row(entry: dict[str, object]) -> str:
    """One line of the table."""
    direct, behind = entry["direct"], entry["behind"]
    cells = (
        f"{entry['label']} {entry.get('version', '')} ({int(str(entry['window'])) // 1000}k)", _outcome(direct),
        _outcome(behind), f"{behind['largest'] / 1000:.1f}k", _breaks(direct, behind), str(behind["folds"]),
        "; ".join(behind["opened"]) or "no tools", _yes(behind["is_right_host"]), _yes(behind["is_right_summary"]),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _outcome(result: Mapping[str, object]) -> str:
    counts = f"{result['accepted']}/{result['over']}/{result['invalid']}"
    return counts if result["is_done"] else f"{counts}, stops after {result['calls']} calls"


def _breaks(direct: Mapping[str, object], behind: Mapping[str, object]) -> str:
    own = f" ({direct['breaks']} by itself)" if direct["breaks"] else ""
    return f"{behind['breaks']}{own}"


def _yes(value: object) -> str:
    return "yes" if value else "no"


HEAD = """\
# Real clients behind `ebb run`

Each client, unmodified, reads 40 files of 6 KB with its own tools in a small window, once by itself and once behind
`ebb run`, and is then asked to open a result that was removed and the text behind a compaction. aider has no tools:
there the user pastes 14 files of 3.6 KB. The provider is scripted; it checks every request by its own reading of the
provider's rules and counts tokens itself.

- *Accepted/over/invalid*: requests that the provider accepted, that were over the window, and that broke a rule.
- *Breaks*: requests that did not begin with the one before, byte for byte, so that the provider's cache was of less
  use; in brackets those of the client's own making. *Compactions*: how often old turns were replaced by a summary.
- *Opens*: rows of the file that came back, of the 170 of a file. What is read back is not removed again on arrival: it
  stays whole up to a quarter of the conversation's room, and of more the first lines come with their numbers.
- *Host*: requests ended at the address in the client's own settings, and the first line of `ebb run` names it.
  *Summary*: its end line counts every answered request.

"""
TABLE = """\
| client (window) | by itself | behind `ebb run` | largest | breaks | compactions | opens | host | summary |
|---|---|---|---|---|---|---|---|---|
"""
FOOT = """
Made with one command, which needs the clients (`python -m scripts.install_clients --into ~/clients`):

```text
$ python -m benchmarks.clients --into ~/clients --write
```

It keeps the figures, the first line and the end lines of every client in `benchmarks/results/clients.json`. How each is
led to the proxy: [Run an agent behind Ebbtide](../how-to/run.md).
"""


def page(results: Mapping[str, dict[str, object]]) -> str:
    rows = [row(results[client.name]) for client in CLIENTS if client.name in results]
    return HEAD + TABLE + "\n".join(rows) + "\n" + FOOT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help="default: all that are installed")
    parser.add_argument("--into", type=Path, default=default_place(), help="where the clients are")
    parser.add_argument("--write", action="store_true", help=f"keep the results, and write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    if unknown := set(args.clients) - {client.name for client in CLIENTS}:
        parser.error(f"no client {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in CLIENTS)}")
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    measured = 0
    for client in CLIENTS:
        file = found(client.name, args.into)
        if file is None or (args.clients and client.name not in args.clients):
            continue
        results[client.name] = measure(client, file)
        measured += 1
        if args.write:
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            PAGE.write_text(page(results), encoding="utf-8")
    return 0 if measured else 1


if __name__ == "__main__":
    sys.exit(main())
