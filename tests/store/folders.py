"""A session in a folder."""

from ebbtide.store import DirectoryStore
from store.faults import Quick


def opened(root, session="s", project="", files=None):
    return DirectoryStore(root, files=files or Quick()).open(session, project=project, now=1.0)


def log_file(root, session="s"):
    return root / "projects" / "_" / f"{session}.jsonl"
