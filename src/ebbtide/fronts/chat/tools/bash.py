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
    "Run a command line with bash in the workspace. Each call starts a new shell, so `cd` and variables do not last. "
    "Returns the first 250 lines of output. For servers and long builds, set `background`. Then call with `task` to "
    "see new output, and with `task` and `stop` to end it. Use read, grep and glob instead of cat, grep and find.",
    {
        "command": {"type": "string"},
        "timeout": {"type": "integer", "description": f"Seconds, {_TIMEOUT} by default, {_MAX_TIMEOUT} at most."},
        "background": {"type": "boolean", "description": "Return at once and let the command run."},
        "task": {"type": "string", "description": "Name of a background command, such as b1. Runs no new command."},
        "stop": {"type": "boolean", "description": "With `task`: end that command."},
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
        raise ToolError(f"`timeout` must be 1 to {_MAX_TIMEOUT} seconds; for a longer command set `background`")
    process = _start(state, command)
    end = process.wait(seconds, state.stop)
    if end != "done":
        process.kill()
    notes = {"time": f"[Ended: it ran longer than {seconds} s.]", "stopped": "[Interrupted by the user.]"}
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
        raise ToolError(f"{_MAX_BACKGROUND} commands are already running in the background; stop one first")
    name = f"b{len(state.background) + 1}"
    state.background[name] = _start(state, command)
    return ToolResult(text=f"Started in the background as {name}. Call bash with task={name!r} to see its output.")


def _check_background(state: ToolState, name: str, *, stop: bool) -> ToolResult:
    process = state.background.get(name)
    if process is None:
        raise ToolError(f"there is no background command {name!r}. There are: {', '.join(state.background) or 'none'}")
    if stop:
        process.kill()
    code = process.exit_code
    status = "still running" if code is None else f"ended, exit code {code}"
    return ToolResult(text=f"[{name}: {status}]\n{process.new_output() or '(no new output)'}")


def stop_all(state: ToolState) -> None:
    for process in state.background.values():
        process.kill()


def report_ended_commands(state: ToolState) -> str:
    """Describe background commands that ended since the last report, each once."""
    codes = {name: process.exit_code for name, process in state.background.items()}
    new = {name: code for name, code in codes.items() if code is not None and name not in state.reported_exits}
    state.reported_exits.update(new)
    return "\n".join(f"Background command {name} ended with exit code {code}." for name, code in new.items())
