"""Real clients behind `ebb run`, against a scripted provider: the table of docs/reference/clients.md.

    python -m scripts.install_clients --into ~/clients
    python -m benchmarks.clients --into ~/clients                    all that are installed
    python -m benchmarks.clients --into ~/clients claude codex       some
    python -m benchmarks.clients --into ~/clients --write            write the page

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from scripts.install_clients import default_place, found  # noqa: E402

from clients.guided_provider import DONE, file_name, marker, names, sent, text, tokens_of  # noqa: E402
from clients.programs import PROGRAMS, PROMPT, ProgramRun, environment  # noqa: E402
from upstream.finding import Body  # noqa: E402
from upstream.script import Part, Say, Use  # noqa: E402
from upstream.server import Upstream  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "clients.md"
PARTS = 40
LINES = 170
"""Of a part: 6 KB."""
PATIENCE = 300.0
"""Seconds for one run."""
_SHELLS = ("Bash", "bash", "exec_command", "shell", "shell_command", "run_shell_command", "read_part", "Shell")
_FILE = re.compile(r"/[\w/.-]+/tool-results/(?!history)[\w.-]+\w")
_HANDLE = re.compile(r"saved as (ebb:(?!history)[\w.-]+\w)")
_END_OF_MINI = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    name: str
    window: int
    start: Callable[[Path, str, Path], ProgramRun]
    label: str


@dataclass(slots=True)
class GuidedWalk:
    """Read every part, then what was saved of one, then say that all are read."""

    opens: bool
    is_mini: bool
    at: int = 0
    opened: str = ""

    def __call__(self, body: Body) -> list[Part]:
        tools = names(body)
        shell = next((name for name in tools if name in _SHELLS), None)
        if shell is None:
            return [Say("Reading parts")]
        self.at += 1
        if self.at <= PARTS:
            return [Say(f"Now part {self.at}."), _call(shell, f"cat {file_name(self.at)}")]
        if self.opens and self.at == PARTS + 1:
            call = self._open(shell, json.dumps(body), has_tool="ebb_read" in tools)
            if call is not None:
                return [Say("What was that?"), call]
        return [Say(DONE), _call(shell, _END_OF_MINI)] if self.is_mini else [Say(DONE)]

    def _open(self, shell: str, body: str, *, has_tool: bool) -> Use | None:
        match = _HANDLE.search(body) if has_tool else _FILE.search(body)
        if match is None:
            return None
        self.opened = match[1] if has_tool else match[0]
        return Use("ebb_read", {"handle": self.opened}) if has_tool else _call(shell, f"cat {self.opened}")


def _call(shell: str, command: str) -> Use:
    if shell == "Shell":
        return Use(shell, {"command": command})
    if shell == "read_part":
        return Use(shell, {"name": command.rsplit(maxsplit=1)[-1]})
    if shell == "shell":
        return Use(shell, {"command": ["sh", "-c", command]})
    key = "cmd" if shell == "exec_command" else "command"
    extra: Body = {"max_output_tokens": 20_000} if shell == "exec_command" else {}
    described = {} if shell in ("exec_command", "shell_command") else {"description": "Reads a part"}
    return Use(shell, {key: command, **extra, **described})


def _qwen(file: Path, provider: str, _home: Path) -> ProgramRun:
    variables = {"OPENAI_BASE_URL": f"{provider}/v1", "OPENAI_API_KEY": "sk-made-up", "OPENAI_MODEL": "small"}
    return ProgramRun(command=[str(file), "--auth-type", "openai", "--yolo", "-p", PROMPT], environ=variables)


def _kimi(file: Path, provider: str, _home: Path) -> ProgramRun:
    variables = {"KIMI_BASE_URL": f"{provider}/v1", "KIMI_API_KEY": "sk-made-up", "KIMI_MODEL_NAME": "small"}
    variables["KIMI_MODEL_MAX_CONTEXT_SIZE"] = "1000000"
    return ProgramRun(command=[str(file), "--print", "-c", PROMPT], environ=variables)


def _vibe(file: Path, provider: str, home: Path) -> ProgramRun:
    folder = home / ".vibe"
    folder.mkdir()
    settings = (
        'active_model = "small"\nenable_update_checks = false\nenable_telemetry = false\n'
        f'[[providers]]\nname = "own"\napi_base = "{provider}/v1"\napi_key_env_var = "OWN_KEY"\n'
        '[[models]]\nname = "small"\nprovider = "own"\nalias = "small"\nauto_compact_threshold = 1000000\n'
    )
    (folder / "config.toml").write_text(settings, encoding="utf-8")
    command = [str(file), "--trust", "--agent", "auto-approve", "--max-turns", "60", "-p", PROMPT]
    return ProgramRun(command=command, environ={"OWN_KEY": "sk-made-up"})


def _mini(file: Path, provider: str, home: Path) -> ProgramRun:
    variables = {"OPENAI_API_BASE": f"{provider}/v1", "OPENAI_API_KEY": "sk-made-up", "MSWEA_CONFIGURED": "true"}
    variables |= {"MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_GLOBAL_CONFIG_DIR": str(home)}
    command = [str(file), "-m", "openai/small", "-t", PROMPT, "-y", "--exit-immediately", "-c", "mini.yaml"]
    return ProgramRun(command=command, environ=variables)


def _llm(file: Path, provider: str, home: Path) -> ProgramRun:
    function = 'def read_part(name: str) -> str:\n    """Read one part."""\n    return open(name).read()\n'
    command = [str(file), "-m", "gpt-4o", "--functions", function, "--chain-limit", "0", "--key", "sk-made-up", PROMPT]
    return ProgramRun(command=command, environ={"OPENAI_BASE_URL": f"{provider}/v1", "LLM_USER_PATH": str(home)})


_LABELS = {"claude": "Claude Code", "codex": "Codex", "opencode": "OpenCode", "gemini": "Gemini CLI", "llm": "llm"}
_WINDOWS = {"claude": 60_000, "codex": 40_000, "opencode": 40_000, "gemini": 40_000, "llm": 16_000}
CLIENTS = (
    *(
        Client(name=program.name, label=_LABELS[program.name], window=_WINDOWS[program.name], start=program.start)
        for program in PROGRAMS
        if program.name != "llm"  # there the address is in a file that no other program can override
    ),
    Client(name="llm", label="llm", window=16_000, start=_llm),
    Client(name="qwen", label="Qwen Code", window=40_000, start=_qwen),
    Client(name="kimi", label="Kimi CLI", window=24_000, start=_kimi),
    Client(name="vibe", label="Mistral Vibe", window=24_000, start=_vibe),
    Client(name="mini", label="mini-swe-agent", window=16_000, start=_mini),
)


@dataclass(slots=True)
class Result:
    """What one run came to."""

    code: int = -1
    is_done: bool = False
    accepted: int = 0
    over: int = 0
    invalid: int = 0
    largest: int = 0
    breaks: int = 0
    files_read: int = 0
    opened: str = "-"
    summary: str = ""
    first_line: str = ""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        if self.is_done:
            return f"{self.accepted}/{self.over}/{self.invalid}"
        return f"ends at call {self.files_read + 1} of {PARTS}, {self.over} refused"


def run_client(client: Client, file: Path, *, is_behind: bool) -> Result:
    with tempfile.TemporaryDirectory(prefix="ebb-clients-", dir=_outside_tmp()) as folder:
        work, home = Path(folder, "work"), Path(folder, "home")
        work.mkdir()
        home.mkdir()
        for part in range(1, PARTS + 1):
            (work / file_name(part)).write_text(text(part, LINES), encoding="utf-8")
        walk = GuidedWalk(opens=is_behind, is_mini=client.name == "mini")
        with Upstream(walk, window=client.window) as upstream:
            started = client.start(file, upstream.url, home)
            command = [*_ebb(client, folder), *started.command] if is_behind else started.command
            begin = time.monotonic()
            code, output, errors = _run(command, environment(home, started.environ), work)
            result = _judge(client, upstream, walk, code, output)
            result.seconds = time.monotonic() - begin
            lines = errors.splitlines()
            result.first_line = next(
                (line for line in lines if "-> ebbtide ->" in line or "without Ebbtide" in line), ""
            )
            result.summary = "\n".join(lines[next((n for n, line in enumerate(lines) if " in 1 conversation" in line
                or " conversations" in line or "no request" in line), len(lines)) :])  # fmt: skip
            if not result.is_done:
                result.problems = [output[-600:], errors[-1200:]]
        return result


def _outside_tmp() -> str:
    """Some clients refuse to keep their files in /tmp."""
    place = Path.home() / ".cache" / "ebbtide-benchmark"
    place.mkdir(parents=True, exist_ok=True)
    return str(place)


def _ebb(client: Client, folder: str) -> list[str]:
    store = str(Path(folder, "store"))
    return [sys.executable, "-m", "ebbtide", "run", "--window", str(client.window), "--store", store, "--"]


def _run(command: Sequence[str], environ: Mapping[str, str], work: Path) -> tuple[int, str, str]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            list(command), cwd=work, env=dict(environ), stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
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


def _judge(client: Client, upstream: Upstream, walk: GuidedWalk, code: int, output: str) -> Result:
    lane = [one for one in upstream.requests if set(names(one.parsed)) & set(_SHELLS)]
    accepted = [one for one in lane if one.usage]
    refused = [one for one in upstream.requests if one.refused]
    over = [one for one in refused if tokens_of(one) > client.window]
    texts = [sent(one) for one in accepted]
    result = Result(code=code, accepted=len(accepted), over=len(over), invalid=len(refused) - len(over))
    result.largest = max((tokens_of(one) for one in accepted), default=0)
    result.breaks = sum(texts[n][: len(texts[n - 1])] != texts[n - 1] for n in range(1, len(texts)))
    bodies = [one.raw.decode("utf-8", "replace") for one in accepted]
    result.files_read = sum(any(marker(part) in body for body in bodies) for part in range(1, PARTS + 1))
    has_ended = client.name == "mini" or DONE in output
    result.is_done = code == 0 and has_ended and result.files_read == PARTS
    if walk.opened:
        # The newest units: what the client adds behind a result is its own.
        shown = "\n".join(texts[-1][-4:])
        result.opened = "yes" if " gauge station-" in shown and "permission" not in shown else "no"
        result.opened += ", by tool" if walk.opened.startswith("ebb:") else ""
    return result


def _row(client: Client, direct: Result, behind: Result) -> str:
    count = re.search(r"ebb run: ([\d,]+) requests? in", behind.summary)
    is_right = "yes" if count and int(count[1].replace(",", "")) >= behind.accepted else "no"
    host = "yes" if "127.0.0.1" in behind.first_line and behind.accepted else "no"
    cells = (
        f"{client.label} ({client.window // 1000}k)", direct.outcome, behind.outcome, f"{behind.largest / 1000:.1f}k",
        str(behind.breaks), behind.opened, host, is_right,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


_HEAD = """\
# Real clients behind `ebb run`

Each client, unmodified, reads 40 files of 6 KB with its own tools in a small window, once by itself and once behind
`ebb run`, and is then asked to open a result that was removed. The provider is scripted; it checks every request by its
own reading of the provider's rules and counts tokens itself. *Accepted/over/invalid* are requests that it accepted,
that were over the window, and that broke a rule. *Breaks* are requests that did not begin with the last one, byte for
byte. *Host*: requests ended at the address in the client's own settings. *Summary*: the end line of `ebb run` counts
every request.

Made with `python -m benchmarks.clients --into ~/clients --write`, which needs the clients:
`python -m scripts.install_clients --into ~/clients`.

| client (window) | by itself | behind `ebb run` | largest | breaks | opens what left | host | summary |
|---|---|---|---|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help="default: all that are installed")
    parser.add_argument("--into", type=Path, default=default_place(), help="where the clients are")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    if unknown := set(args.clients) - {client.name for client in CLIENTS}:
        parser.error(f"no client {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in CLIENTS)}")
    rows, notes = [], []
    for client in CLIENTS:
        file = found(client.name, args.into)
        if file is None or (args.clients and client.name not in args.clients):
            continue
        direct, behind = (run_client(client, file, is_behind=is_behind) for is_behind in (False, True))
        rows.append(_row(client, direct, behind))
        print(rows[-1], flush=True)
        print(
            f"  {direct.seconds:.0f} s by itself, {behind.seconds:.0f} s behind; exit {direct.code} and {behind.code}"
        )
        print("  " + "\n  ".join([behind.first_line, *behind.summary.splitlines(), *behind.problems]), flush=True)
        notes += [f"- {client.label}: `{behind.first_line.removeprefix('ebb run: ')}`"] if behind.first_line else []
    if args.write and rows:
        PAGE.write_text(f"{_HEAD}{chr(10).join(rows)}\n", encoding="utf-8")
        print(PAGE)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
