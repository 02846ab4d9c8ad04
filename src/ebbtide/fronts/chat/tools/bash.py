"""A command line in a shell of its own. It ends with its time, with the person's wish, or by itself."""

from __future__ import annotations

from ebbtide.fronts.chat.tools.desk import Desk, Given, Need, Outcome, Refused, Tool, number, text, truth, words
from ebbtide.fronts.chat.tools.processes import Process
from ebbtide.workspace import find_program

PATIENCE, LONGEST = 120, 600
"""Seconds: by default, and at most. What takes longer goes to the background."""
_BACKGROUND = 8  # commands at once: more are forgotten ones


def _need(_desk: Desk, given: Given) -> Need:
    if words(given, "task"):
        return Need(tool="bash")
    return Need(tool="bash", kind="run", command=text(given, "command"))


def _run(desk: Desk, given: Given) -> Outcome:
    if name := words(given, "task"):
        return _look(desk, name, stop=truth(given, "stop"))
    command = text(given, "command")
    if truth(given, "background"):
        return _behind(desk, command)
    seconds = number(given, "timeout", PATIENCE)
    if not 1 <= seconds <= LONGEST:
        raise Refused(f"`timeout` is 1 to {LONGEST} seconds; for longer commands set `background`")
    process = _started(desk, command)
    ended = process.wait(seconds, desk.stop)
    if ended != "done":
        process.kill()
    why = {"time": f"[Timed out after {seconds} s and was ended.]", "stopped": "[Interrupted by the user.]"}
    return told(process.output(), process.code, why.get(ended, ""))


def told(output: str, code: int | None, why: str = "") -> Outcome:
    status = "" if why or not code else f"Exit code {code}"
    shown = "\n".join(filter(None, (status, output, why)))
    return Outcome(text=shown or "(no output)", failed=bool(why) or bool(code))


def _started(desk: Desk, command: str) -> Process:
    shell = find_program("bash")
    if shell is None:
        raise Refused("bash is not installed")
    return Process([shell, "-c", "--", command], desk.root, desk.environ)


def _behind(desk: Desk, command: str) -> Outcome:
    if sum(one.code is None for one in desk.running.values()) >= _BACKGROUND:
        raise Refused(f"{_BACKGROUND} commands run in the background already; stop one first")
    name = f"b{len(desk.running) + 1}"
    desk.running[name] = _started(desk, command)
    return Outcome(text=f"Started in the background as {name}. Call bash with task={name!r} to see its output.")


def _look(desk: Desk, name: str, *, stop: bool) -> Outcome:
    process = desk.running.get(name)
    if process is None:
        raise Refused(f"there is no background command {name!r}; there are {', '.join(desk.running) or 'none'}")
    if stop:
        process.kill()
    code = process.code
    state = "still running" if code is None else f"ended, exit code {code}"
    return Outcome(text=f"[{name}: {state}]\n{process.fresh() or '(nothing new)'}")


def stop_all(desk: Desk) -> None:
    for process in desk.running.values():
        process.kill()


def ended(desk: Desk) -> str:
    """Background commands that ended since the model last heard of them."""
    news = {name: one.code for name, one in desk.running.items() if one.code is not None and name not in desk.told}
    desk.told.update(news)
    return "\n".join(f"Background command {name} ended with exit code {code}." for name, code in news.items())


bash = Tool(
    name="bash",
    about=(
        "Run a command line with bash in the workspace. Each call is a shell of its own: `cd` and variables do not "
        "last. The first 250 lines of output come back. Set `background` for servers and long builds, then call with "
        "`task` to see what is new, and with `stop` to end it. Prefer read, grep and glob to cat, grep and find."
    ),
    fields={
        "command": {"type": "string"},
        "timeout": {"type": "integer", "description": f"Seconds, {PATIENCE} by default, {LONGEST} at most."},
        "background": {"type": "boolean", "description": "Return at once and let it run."},
        "task": {"type": "string", "description": "A background command, as in b1, instead of a new one."},
        "stop": {"type": "boolean", "description": "With `task`: end it."},
    },
    wants=(),
    need=_need,
    run=_run,
)
