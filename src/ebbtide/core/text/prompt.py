"""What a user wrote, without what the user's program put around it: reminders, settings, the output of commands.

Programs send such texts as user messages. A list of sessions should show what the user asked.
"""

from __future__ import annotations

import re

_ELEMENT = re.compile(r"\s*<([a-zA-Z][^<>]{1,200})>")
_PROGRAM_ELEMENTS = frozenset(
    {
        "system-reminder", "command-name", "command-message", "command-args", "command-contents",
        "local-command-stdout", "local-command-stderr", "local-command-caveat", "user-prompt-submit-hook",
        "bash-input", "bash-stdout", "bash-stderr", "task-notification", "ide_opened_file", "ide_selection",
        "environment_context", "environment_details", "user_instructions", "permissions instructions",
        "collaboration_mode", "skills_instructions", "apps_instructions", "plugins_instructions", "turn_aborted",
        "user_shell_command", "subagent_notification", "model_switch", "personality_spec",
    }
)  # fmt: skip
"""Elements that Claude Code, Codex and editors write into user messages."""
_PROGRAM_STARTS = ("Caveat: ", "[Request interrupted", "# AGENTS.md instructions", "<INSTRUCTIONS>")
_MAX_ELEMENTS = 50
"""Elements to skip at the start of one text: more is not a message of a user."""


def user_words(text: str) -> str:
    """Return the text without the program's own elements at its start; "" if nothing else is in it."""
    for _ in range(_MAX_ELEMENTS):
        element = _ELEMENT.match(text)
        # Some names are two words; of others the second word is an attribute.
        names = (element[1], element[1].split()[0]) if element else ()
        name = next((name for name in names if name in _PROGRAM_ELEMENTS), "")
        if element is None or not name:
            text = text.strip()
            return "" if text.startswith(_PROGRAM_STARTS) else text
        end = text.find(f"</{name}>", element.end())
        if end < 0:
            return ""
        text = text[end + len(name) + 3 :]
    return ""
