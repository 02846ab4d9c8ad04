"""Opens the log of a session in a folder, without waiting for the disk."""

from ebbtide.store import DirectoryStore
from store.faulty_fs import Quick


def open_log(root, session="s", project="", fs=None):
    return DirectoryStore(root, fs=fs or Quick()).open(session, project=project, now=1.0)


def log_file(root, session="s"):
    return root / "projects" / "_" / f"{session}.jsonl"
