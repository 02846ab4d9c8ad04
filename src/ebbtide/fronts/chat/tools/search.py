"""The tools grep and glob. Neither follows symbolic links out of the directory that is searched."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from ebbtide.fronts.chat.tools.processes import MAX_LINES, Process
from ebbtide.fronts.chat.tools.tool import Arguments, ToolError, ToolResult, ToolState, path_action, tool
from ebbtide.workspace import find_program

_TIMEOUT = 30  # seconds: a search that takes longer is not narrow enough
_NO_MATCH = 1  # exit code of rg and grep
_MAX_ENTRIES = 100_000  # in a larger tree the pattern must say where to look
_SKIPPED = (".git", "node_modules", ".venv", "__pycache__")


@tool(
    "Search files with a regular expression. Returns file, line number and line; at most 250 lines.",
    {
        "pattern": {"type": "string", "description": "An extended regular expression."},
        "path": {"type": "string", "description": "File or directory; default: the workspace."},
        "glob": {"type": "string", "description": "Search only files with this name, as in *.py."},
        "ignore_case": {"type": "boolean"},
    },
    required=("pattern",),
    action=path_action("grep", "read", default="."),
)
def grep(state: ToolState, arguments: Arguments) -> ToolResult:
    path = state.resolve_path(arguments, default=".")
    if not path.exists():
        raise ToolError(f"there is no {state.display_path(path)}")
    pattern, files = arguments.text("pattern"), arguments.optional_text("glob")
    case = ["-i"] if arguments.boolean("ignore_case") else []
    process = Process(_search_command(pattern, state.display_path(path), files, case), state.root, state.environ)
    end = process.wait(_TIMEOUT, state.stop)
    if end != "done":
        process.kill()
        return ToolResult(text=f"{process.output()}\n[Ended early ({end}). Make the search narrower.]", is_error=True)
    if process.exit_code == _NO_MATCH and not process.total:
        return ToolResult(text="No matches.")
    return ToolResult(text=process.output() or "No matches.", is_error=process.exit_code not in (0, _NO_MATCH))


def _search_command(pattern: str, path: str, files: str, case: Sequence[str]) -> Sequence[str]:
    if ripgrep := find_program("rg"):
        only = ["--glob", files] if files else []
        # --no-config: the user's own settings could make it follow links or run programs.
        fixed = ["--no-config", "--line-number", "--no-heading", "--color=never", "--max-columns=400", "--sort=path"]
        return [ripgrep, *fixed, *case, *only, "-e", pattern, "--", path]
    grep = find_program("grep")
    if grep is None:
        raise ToolError("neither rg nor grep is installed")
    only = [f"--include={files.removeprefix('**/')}"] if files else []
    skipped = [f"--exclude-dir={name}" for name in _SKIPPED]
    return [grep, "-rnIE", "--color=never", *skipped, *case, *only, "-e", pattern, "--", path]


@tool(
    "Find files by name, as in **/*.py or src/*.md. Returns at most 250, the most recently changed first.",
    {
        "pattern": {"type": "string"},
        "path": {"type": "string", "description": "Directory to search; default: the workspace."},
    },
    required=("pattern",),
    action=path_action("glob", "read", default="."),
)
def glob(state: ToolState, arguments: Arguments) -> ToolResult:
    start, pattern = state.resolve_path(arguments, default="."), arguments.text("pattern")
    if not start.is_dir():
        raise ToolError(f"{state.display_path(start)} is not a directory")
    files = _find_files(start, pattern)
    if not files:
        return ToolResult(text="No files match.")
    lines = [state.display_path(path) for path in files[:MAX_LINES]]
    if len(files) > MAX_LINES:
        lines.append(f"[{len(files) - MAX_LINES} more. Make the pattern narrower.]")
    return ToolResult(text="\n".join(lines))


def _find_files(start: Path, pattern: str) -> list[Path]:
    """Newest first; equal times by name, so that the result is the same every time."""
    if os.path.isabs(pattern) or ".." in Path(pattern).parts:
        raise ToolError("`pattern` must be relative to `path` and stay below it")
    try:
        inside = [path for path in _matches(start, pattern) if path.resolve().is_relative_to(start)]
    except (ValueError, NotImplementedError) as error:
        raise ToolError(f"`pattern`: {error}") from None
    return sorted(inside, key=lambda path: (-path.lstat().st_mtime_ns, str(path)))


def _matches(start: Path, pattern: str) -> Iterator[Path]:
    for path in islice(start.glob(pattern), _MAX_ENTRIES):
        if not set(_SKIPPED).intersection(path.relative_to(start).parts) and path.is_file():
            yield path
