"""What a session sees of its surroundings is looked at once and is then a value: the same bytes every turn.

Files, git and addresses are hostile until shown otherwise; what is refused is skipped and reported, and never stops a
session.
"""

from ebbtide.workspace.addresses import fetch_text
from ebbtide.workspace.files import changed_files, file_times
from ebbtide.workspace.git import git_status, project_root
from ebbtide.workspace.instructions import Sources, instructions
from ebbtide.workspace.parallel import Report, gather_attachments
from ebbtide.workspace.programs import find_program
from ebbtide.workspace.surroundings import Surroundings, facts, look_around

__all__ = [
    "Report",
    "Sources",
    "Surroundings",
    "changed_files",
    "facts",
    "fetch_text",
    "file_times",
    "find_program",
    "gather_attachments",
    "git_status",
    "instructions",
    "look_around",
    "project_root",
]
