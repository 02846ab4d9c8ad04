"""The tool bash: runs a command line in a new shell, with a timeout or in the background."""

from __future__ import annotations

from ebbtide.fronts.chat.tools.processes import Process
from ebbtide.fronts.chat.tools.tool import Action, Arguments, ToolError, ToolResult, ToolState, tool
from ebbtide.workspace import find_program

_TIMEOUT, _MAX_TIMEOUT = 120, 600  # seconds; a longer command runs in the background
_MAX_BACKGROUND = 8  # commands at once: the model has forgotten the rest


def _action(_state: ToolState, arguments: Arguments) -> Action:
    if arguments.optional_text("task"):
        return Action(tool="bash")
    return Action(tool="bash", kind="run", command=arguments.text("command"))


@tool(
    "Run a command line with bash in the workspace. Each call is a shell of its own: `cd` and variables do not "
    "last. The first 250 lines of output come back. Set `background` for servers and long builds, then call with "
    "`task` to see what is new, and with `stop` to end it. Prefer read, grep and glob to cat, grep and find.",
    {
        "command": {"type": "string"},
        "timeout": {"type": "integer", "description": f"Seconds, {_TIMEOUT} by default, {_MAX_TIMEOUT} at most."},
        "background": {"type": "boolean", "description": "Return at once and let it run."},
        "task": {"type": "string", "description": "A background command, as in b1, instead of a new one."},
        "stop": {"type": "boolean", "description": "With `task`: end it."},
    },
    action=_action,
)
def bash(state: ToolState, arguments: Arguments) -> ToolResult:
    if name := arguments.optional_text("task"):
        return _check_background(state, name, stop=arguments.boolean("stop"))
    command = arguments.text("command")
    if arguments.boolean("background"):
        return _start_in_background(state, command)
    seconds = arguments.integer("timeout", _TIMEOUT)
    if not 1 <= seconds <= _MAX_TIMEOUT:
        raise ToolError(f"`timeout` is 1 to {_MAX_TIMEOUT} seconds; for longer commands set `background`")
    process = _start(state, command)
    end = process.wait(seconds, state.stop)
    if end != "done":
        process.kill()
    notes = {"time": f"[Timed out after {seconds} s and was ended.]", "stopped": "[Interrupted by the user.]"}
    note, code = notes.get(end, ""), process.exit_code
    status = f"Exit code {code}" if code and not note else ""
    text = "\n".join(filter(None, (status, process.output(), note)))
    return ToolResult(text=text or "(no output)", is_error=bool(note) or bool(code))


def _start(state: ToolState, command: str) -> Process:
    shell = find_program("bash")
    if shell is None:
        raise ToolError("bash is not installed")
    return Process([shell, "-c", "--", command], state.root, state.environ)


def _start_in_background(state: ToolState, command: str) -> ToolResult:
    if sum(process.exit_code is None for process in state.background.values()) >= _MAX_BACKGROUND:
        raise ToolError(f"{_MAX_BACKGROUND} commands run in the background already; stop one first")
    name = f"b{len(state.background) + 1}"
    state.background[name] = _start(state, command)
    return ToolResult(text=f"Started in the background as {name}. Call bash with task={name!r} to see its output.")


def _check_background(state: ToolState, name: str, *, stop: bool) -> ToolResult:
    process = state.background.get(name)
    if process is None:
        raise ToolError(f"there is no background command {name!r}; there are {', '.join(state.background) or 'none'}")
    if stop:
        process.kill()
    code = process.exit_code
    status = "still running" if code is None else f"ended, exit code {code}"
    return ToolResult(text=f"[{name}: {status}]\n{process.new_output() or '(nothing new)'}")


def stop_all(state: ToolState) -> None:
    for process in state.background.values():
        process.kill()


def report_ended_commands(state: ToolState) -> str:
    """Describe background commands that ended since the last report, each once."""
    codes = {name: process.exit_code for name, process in state.background.items()}
    new = {name: code for name, code in codes.items() if code is not None and name not in state.reported_exits}
    state.reported_exits.update(new)
    return "\n".join(f"Background command {name} ended with exit code {code}." for name, code in new.items())
