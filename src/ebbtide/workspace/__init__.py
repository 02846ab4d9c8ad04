"""Reads a session's surroundings once: instruction files, git, the environment. The result stays the same every turn.

Files, repositories and addresses are not trusted. What cannot be read safely is skipped and reported, and never stops a
session.
"""

from ebbtide.workspace.fetch import fetch_text
from ebbtide.workspace.files import changed_files, file_times, find_program
from ebbtide.workspace.git import git_status, project_root
from ebbtide.workspace.instructions import Sources, load_instructions
from ebbtide.workspace.parallel import OnSkip, gather_attachments
from ebbtide.workspace.surroundings import Surroundings, environment_facts, look_around

__all__ = [
    "OnSkip",
    "Sources",
    "Surroundings",
    "changed_files",
    "environment_facts",
    "fetch_text",
    "file_times",
    "find_program",
    "gather_attachments",
    "git_status",
    "load_instructions",
    "look_around",
    "project_root",
]
