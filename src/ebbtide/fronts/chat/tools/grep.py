"""Search in files, by ripgrep where it is installed and by grep elsewhere. Neither follows links."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.fronts.chat.tools.desk import Desk, Given, Need, Outcome, Refused, Tool, text, truth, words
from ebbtide.fronts.chat.tools.processes import Process
from ebbtide.workspace import find_program

_PATIENCE = 30  # seconds: a search that takes longer is not narrow enough
_NOTHING = 1  # what both programs exit with where nothing matches


def _need(desk: Desk, given: Given) -> Need:
    return Need(tool="grep", kind="read", path=desk.place(given, default="."))


def _run(desk: Desk, given: Given) -> Outcome:
    path = desk.place(given, default=".")
    if not path.exists():
        raise Refused(f"there is no {desk.shown(path)}")
    case = truth(given, "ignore_case")
    command = command_for(text(given, "pattern"), desk.shown(path), words(given, "glob"), ignore_case=case)
    process = Process(command, desk.root, desk.environ)
    ended = process.wait(_PATIENCE, desk.stop)
    if ended != "done":
        process.kill()
        return Outcome(text=f"{process.output()}\n[Ended early: {ended}. Narrow the search.]", failed=True)
    if process.code == _NOTHING and not process.total:
        return Outcome(text="Nothing matches.")
    return Outcome(text=process.output() or "Nothing matches.", failed=process.code not in (0, _NOTHING))


def command_for(pattern: str, path: str, files: str, *, ignore_case: bool) -> Sequence[str]:
    case = ["-i"] if ignore_case else []
    if ripgrep := find_program("rg"):
        wanted = ["--glob", files] if files else []
        # The person's own settings could make it follow links or run programs.
        fixed = ["--no-config", "--line-number", "--no-heading", "--color=never", "--max-columns=400", "--sort=path"]
        return [ripgrep, *fixed, *case, *wanted, "-e", pattern, "--", path]
    grep = find_program("grep")
    if grep is None:
        raise Refused("neither rg nor grep is installed")
    wanted = [f"--include={files.removeprefix('**/')}"] if files else []
    left = [f"--exclude-dir={name}" for name in (".git", "node_modules", ".venv", "__pycache__")]
    return [grep, "-rnIE", "--color=never", *left, *case, *wanted, "-e", pattern, "--", path]


grep = Tool(
    name="grep",
    about="Search the text of files by a regular expression. Gives file, line number and line; 250 lines at most.",
    fields={
        "pattern": {"type": "string", "description": "An extended regular expression."},
        "path": {"type": "string", "description": "File or directory; default: the workspace."},
        "glob": {"type": "string", "description": "Only files of this name, as in *.py."},
        "ignore_case": {"type": "boolean"},
    },
    wants=("pattern",),
    need=_need,
    run=_run,
)
