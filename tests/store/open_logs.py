"""A session in a folder."""

from ebbtide.store import DirectoryStore
from store.faulty_fs import Quick


def opened(root, session="s", project="", fs=None):
    return DirectoryStore(root, fs=fs or Quick()).open(session, project=project, now=1.0)


def log_file(root, session="s"):
    return root / "projects" / "_" / f"{session}.jsonl"
