"""What each preset wants in a summary: the seeds' sections and limits, in our own words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStyle:
    """One way to ask for a summary."""

    name: str
    task: str
    sections: tuple[tuple[str, str], ...] = ()
    """Heading, and what belongs there. Without any, `form` says how to write."""
    form: str = ""
    thinks: bool = True
    """Whether the answer has two phases, `<analysis>` and `<summary>`."""
    numbered: bool = False
    system: str = ""
    """For a call of its own, where the seed has a system text."""
    max_tokens: int = 0
    """The seed's limit of the answer; 0: the policy's."""


DEFAULT = PromptStyle(
    name="default",
    task=(
        "Write the notes from which another agent, who has not seen this conversation, could take over the work at "
        "this very point."
    ),
    sections=(
        ("Intent", "what the user wants, every request that still matters, in the user's own terms"),
        ("Constraints", "what the user ruled in or out, and preferences they stated"),
        ("State of work", "what is finished, what is half done, what was tried and given up"),
        ("Files and code", "files that matter, by full path, why they matter, signatures or short excerpts"),
        ("Errors and fixes", "what failed, with the decisive words of the message, and what cured it"),
        ("Decisions", "what was chosen, against what, and why"),
        ("Pending", "what was asked for and is not done"),
        ("Current", "what was under way in the last messages, precisely"),
        ("Next", "the step that follows from the user's latest request, if one does"),
    ),
)

CLAUDE_CODE = PromptStyle(
    name="claude-code",
    task="Record this conversation in such detail that the development work goes on from it without a gap.",
    sections=(  # R163; nine, numbered 1 to 9 (E2)
        ("Primary Request and Intent", "everything the user asked for, and what for"),
        ("Key Technical Concepts", "technologies, frameworks and ideas that came up and matter"),
        (
            "Files and Code Sections",
            "each file looked at, changed or made, why, and the code that counts, newest first",
        ),
        ("Errors and fixes", "each error, its cure, and what the user said about it"),
        ("Problem Solving", "problems solved, and hunts still going on"),
        ("All user messages", "each message of the user that is no tool result, in order"),
        ("Pending Tasks", "what the user explicitly asked for and is open"),
        ("Current Work", "what was being done right before this request, with file names and code"),
        ("Optional Next Step", "one step, only if it follows from the latest request, with the words that show it"),
    ),
    numbered=True,
)

MINI_CLAUDE = PromptStyle(
    name="mini-claude",
    task="Condense the conversation up to here.",
    form="One compact paragraph. Keep the decisions that matter, paths of files, and what is needed to carry on.",
    thinks=False,
    system="You condense conversations: brief, and without losing a detail that counts.",
    max_tokens=2048,  # R159
)

OPENCODE = PromptStyle(
    name="opencode",
    task="Sum up this conversation for whoever continues it: complete enough to go by, short enough to take in fast.",
    form="Plain prose or lists, on these points:",
    sections=(  # R166
        ("Done", "what was done"),
        ("In progress", "what is being worked on"),
        ("Files", "which files are being changed"),
        ("Next", "what has to be done next"),
        ("User", "requests, constraints and preferences of the user that go on holding"),
        ("Decisions", "technical decisions of weight, and their reasons"),
    ),
    thinks=False,
)

LEARN_V5 = PromptStyle(
    name="learn-v5",
    task="Retell this conversation in the order in which it happened.",
    form="Goals, what was done, what was decided, and where things stand now.",  # R167
    thinks=False,
    max_tokens=2000,
)

REGION = PromptStyle(
    name="region",
    task="A stretch of a software agent's history is to be replaced by something shorter.",
    form=(  # R168
        "Use bullet points. Keep: paths, line numbers and names of functions; the approach that was chosen; facts that "
        "were learnt (test results, error messages, settings); what the user required or ruled out. Leave out: how "
        "tools were called, of which only the findings count; repetitions; thinking to and fro."
    ),
    thinks=False,
)
REGION_SHARE = 5
"""R169: a region shrinks to a fifth of its tokens. R170: a tenth loses facts, a half saves too little."""
REGION_SPARE = 200
"""Tokens on top of the target, so that a sentence can end (R169)."""

SAGE = PromptStyle(
    name="sage",
    task="Summarise the messages of this conversation so that it can go on from the summary.",  # R171
    form="State the topics, what was agreed and found, and what is open.",
    thinks=False,
)
