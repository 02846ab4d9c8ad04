"""The clients of `clients.py`, as their users start them, and the work that each is led through.

Those with tools read files with them, one after another. aider has none: there the user pastes the files.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from clients.guided_provider import DONE, file_name, names, text  # noqa: E402
from clients.programs import CLAUDE, PROGRAMS, PROMPT, ProgramRun  # noqa: E402
from upstream.finding import Body  # noqa: E402
from upstream.script import Part, Say, Use  # noqa: E402

PARTS = 40
LINES = 170
"""Of a part: 6 KB."""
FIRST_LINES = 400
"""Of a compaction's text, which is longer than clients let a command print."""
PASTES = 14
PASTED_LINES = 100
SHELLS = ("Bash", "bash", "exec_command", "shell", "shell_command", "run_shell_command", "read_part", "Shell")
_RESULT = re.compile(r"/[\w/.-]+/tool-results/(?!history)[\w.-]+\w|(?<=saved as )ebb:(?!history)[\w.-]+\w")
_HISTORY = re.compile(r"/[\w/.-]+/tool-results/history-\w+\.txt|ebb:history-[\w.-]*\w")
_END_OF_MINI = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    name: str
    label: str
    window: int
    start: Callable[[Path, str, Path], ProgramRun]
    has_tools: bool = True

    @property
    def calls(self) -> int:
        return PARTS if self.has_tools else PASTES


@dataclass(slots=True)
class Opening:
    """What the client was asked to open, and in which request of the loop its answer came."""

    kind: str
    """`result` or `compaction`."""
    name: str
    """A path, or a handle."""
    request: int


@dataclass(slots=True)
class GuidedWalk:
    """Read every part, then what was saved of a result and of a compaction, then say that all are read."""

    client: Client
    opens: bool
    openings: list[Opening] = field(default_factory=list)
    at: int = 0
    _saved: dict[str, str] = field(default_factory=dict)

    def __call__(self, body: Body) -> list[Part]:
        if not self.client.has_tools:
            return [Say("I have read it.")]
        shell = shell_of(body)
        if shell is None:
            return [Say(_side_answer(body))]
        self._look(str(body))
        self.at += 1
        if self.at <= PARTS:
            return [Say(f"Now part {self.at}."), self._call(body, shell, f"cat {file_name(self.at)}")]
        if self.opens:
            for kind, name in self._saved.items():
                if all(opening.kind != kind for opening in self.openings):
                    self.openings.append(Opening(kind, name, self.at))
                    return [Say(f"What was that, a {kind}?"), self._open(body, shell, name)]
        is_mini = self.client.name == "mini"
        return [Say(DONE), self._call(body, shell, _END_OF_MINI)] if is_mini else [Say(DONE)]

    def _look(self, body: str) -> None:
        """Remember the newest files that were named."""
        for kind, pattern in (("result", _RESULT), ("compaction", _HISTORY)):
            for match in pattern.finditer(body):
                self._saved[kind] = match[0]

    def _open(self, body: Body, shell: str, name: str) -> Use:
        if name.startswith("ebb:"):
            return Use("ebb_read", {"handle": name})
        is_whole = "/history-" not in name or shell == "read_part"
        return self._call(body, shell, f"cat {name}" if is_whole else f"head -n {FIRST_LINES} {name}")

    @staticmethod
    def _call(body: Body, shell: str, command: str) -> Use:
        """Call the client's shell with what its own schema asks for."""
        if shell == "read_part":
            return Use(shell, {"name": command.rsplit(maxsplit=1)[-1]})
        fields = _fields(body, shell)
        key = "cmd" if "cmd" in fields else "command"
        is_list = fields.get(key, {}).get("type") == "array"
        call: Body = {key: ["sh", "-c", command] if is_list else command}
        extra: Body = {"description": "Reads a part", "max_output_tokens": 20_000, "is_background": False}
        return Use(shell, call | {name: value for name, value in extra.items() if name in fields})


def _side_answer(body: Body) -> str:
    """Answer what a client asks beside the work: a title, or an object that follows a schema."""
    schema = (body.get("generationConfig") or {}).get("responseJsonSchema")
    if not isinstance(schema, dict):
        return "Reading parts"
    blank = {"number": 0, "integer": 0, "boolean": False, "string": "none", "array": []}
    return json.dumps({name: blank.get(field.get("type")) for name, field in schema.get("properties", {}).items()})


def shell_of(body: Body) -> str | None:
    return next((name for name in names(body) if name in SHELLS), None)


def _fields(body: Body, name: str) -> Body:
    """Return the properties that a tool declares, on any API format."""
    tools = [tool.get("function") or tool for tool in body.get("tools") or []]
    for tool in (inner for outer in tools for inner in outer.get("functionDeclarations") or [outer]):
        if tool.get("name") == name:
            schema = next(
                (tool[key] for key in ("parameters", "input_schema", "parametersJsonSchema") if key in tool), {}
            )
            properties = schema.get("properties")
            return properties if isinstance(properties, dict) else {}
    return {}


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
    variables |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [str(file), "-m", "openai/small", "-t", PROMPT, "-y", "--exit-immediately", "-c", "mini.yaml"]
    return ProgramRun(command=command, environ=variables)


def _llm(file: Path, provider: str, home: Path) -> ProgramRun:
    function = 'def read_part(name: str) -> str:\n    """Read one part."""\n    return open(name).read()\n'
    command = [str(file), "-m", "gpt-4o", "--functions", function, "--chain-limit", "0", "--key", "sk-made-up", PROMPT]
    return ProgramRun(command=command, environ={"OPENAI_BASE_URL": f"{provider}/v1", "LLM_USER_PATH": str(home)})


def _aider(file: Path, provider: str, _home: Path) -> ProgramRun:
    """The user pastes one part after the other, each with a question."""
    pastes = [
        ("{", f"Here is part {n}.", text(n, PASTED_LINES).rstrip(), "What is in it?", "}") for n in range(1, PASTES + 1)
    ]
    lines = "\n".join(line for paste in pastes for line in paste) + "\n/exit\n"
    command = [str(file), "--model", "openai/small", "--edit-format", "ask", "--no-git", "--yes-always"]
    command += [
        "--no-check-update",
        "--analytics-disable",
        "--no-pretty",
        "--no-fancy-input",
        "--no-show-model-warnings",
    ]
    variables = {"OPENAI_API_BASE": f"{provider}/v1", "OPENAI_API_KEY": "sk-made-up"}
    variables |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return ProgramRun(command=command, environ=variables, stdin=lines)


_AGENT = """
import asyncio
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

async def main():
    options = ClaudeAgentOptions(allowed_tools=["Bash"], model="claude-opus-4-8")
    async for message in query(prompt={prompt!r}, options=options):
        if isinstance(message, ResultMessage):
            print(message.result)

asyncio.run(main())
"""


def _agent_sdk(file: Path, provider: str, _home: Path) -> ProgramRun:
    command = [str(file), "-c", _AGENT.format(prompt=PROMPT)]
    return ProgramRun(command=command, environ={"ANTHROPIC_BASE_URL": provider, **CLAUDE})


_STARTS = {program.name: program.start for program in PROGRAMS}
CLIENTS = (
    Client(name="claude", label="Claude Code", window=60_000, start=_STARTS["claude"]),
    Client(name="agent-sdk", label="Claude Agent SDK", window=60_000, start=_agent_sdk),
    Client(name="codex", label="Codex", window=40_000, start=_STARTS["codex"]),
    Client(name="opencode", label="OpenCode", window=40_000, start=_STARTS["opencode"]),
    Client(name="gemini", label="Gemini CLI", window=40_000, start=_STARTS["gemini"]),
    Client(name="qwen", label="Qwen Code", window=40_000, start=_qwen),
    Client(name="kimi", label="Kimi CLI", window=24_000, start=_kimi),
    Client(name="vibe", label="Mistral Vibe", window=24_000, start=_vibe),
    Client(name="mini", label="mini-swe-agent", window=16_000, start=_mini),
    # Not as in the tests: there its address is in a file that no other program can override.
    Client(name="llm", label="llm", window=16_000, start=_llm),
    Client(name="aider", label="aider", window=12_000, start=_aider, has_tools=False),
)
