"""Text of our own that a model reads. The presets keep the texts of the agents that they reproduce."""

from __future__ import annotations

# --- facts beside a summary -------------------------------------------------------------------------------------------

FILES_CHANGED = "Files changed:"
STATE_OF_WORK = "State of the work:"
USER_CONSTRAINTS = "The user said:"
ERRORS = "Errors:"
FILES_READ = "Files read:"
COMMANDS_RUN = "Commands run:"
ASSISTANT_SENTENCES = "What the assistant said, in its words:"
NAMES_SEEN = "Names seen, by where:"
WORDS_USED = "Words used:"
NAMES_ELSEWHERE = "elsewhere:"
PLAN_MODE = "- mode: planning only, until the user agrees"
REQUIRED_FACTS = "Also:"
SUB_AGENT_RESULTS = "What sub-agents brought:"


def partial_heading(heading: str, shown: int, total: int) -> str:
    """A heading over the first of many entries."""
    return f"{heading.removesuffix(':')} ({shown} of {total}):"


def running_task(kind: str, handle: str, description: str) -> str:
    return f"- running {kind} {handle}: {description}".replace(" :", ":")


def todo(text: str, status: str, *, is_open: bool) -> str:
    mark = "x" if not is_open else "~" if "progress" in status.lower() else " "
    return f"- [{mark}] {text}"


def proposed_plan(handle: str, text: str) -> str:
    return f"- plan put to the user{handle}: {text}"


def open_failure(handle: str, text: str) -> str:
    return f"- open{handle}: {text}"


def resolved_failure(text: str, changed_files: str) -> str:
    return f"- over: {text}" + (f" (after changing {changed_files})" if changed_files else "")


def command_run(command: str, *, status: int | None, run_count: int, last_line: str) -> str:
    notes = [f"exit {status}"] if status else []
    notes += [f"{run_count} times"] if run_count > 1 else []
    return f"- {command}" + (f" ({', '.join(notes)})" if notes else "") + (f": {last_line}" if last_line else "")


# --- a summary --------------------------------------------------------------------------------------------------------

QUOTE_ORIGIN = "(quoted from output)"
"""Behind words that a summary copied from tool output."""
EMPTY_SECTION = "N/A"
"""What a section with nothing to say holds (R165)."""
