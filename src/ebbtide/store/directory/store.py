"""Sessions as files under one root, private to their owner."""

from __future__ import annotations

import os
import stat

from ebbtide.store.directory.catalog import refresh
from ebbtide.store.directory.files import Files
from ebbtide.store.directory.fork import fork_log
from ebbtide.store.directory.lease import leases_of
from ebbtide.store.directory.log import PROJECTS, DirectoryLog
from ebbtide.store.directory.safe_fs import Tree, telling
from ebbtide.store.protocol import SessionInfo


class DirectoryStore:
    def __init__(self, root: str | os.PathLike[str], *, durable: bool = True, files: Files | None = None) -> None:
        self.tree = Tree(files=files or Files(), root=os.path.abspath(root), durable=durable)
        self._leases = leases_of(self.tree)

    def open(self, session: str, *, project: str = "", now: float) -> DirectoryLog:
        log = DirectoryLog(self.tree, session, project, now, self._leases)
        log.check()
        log.repair()
        return log

    def peek(self, session: str, *, project: str = "") -> DirectoryLog:
        log = DirectoryLog(self.tree, session, project, 0.0)
        log.check()
        return log

    def list_sessions(self) -> list[SessionInfo]:
        with telling(f"list the sessions in {self.tree.root}"):
            found = [info for slug in self.projects() for info in refresh(self.tree, (PROJECTS, slug))]
        return sorted(found, key=lambda info: info.modified, reverse=True)

    def projects(self) -> list[str]:
        """The folders, by slug. A link among them is not followed, so it is not one."""
        try:
            with self.tree.folder(PROJECTS) as folder:
                return [name for name in self.tree.files.list(folder) if self._is_folder(name, folder)]
        except FileNotFoundError:
            return []

    def fork(self, session: str, new: str, *, project: str = "", upto: int | None = None, now: float) -> DirectoryLog:
        source, target = self.peek(session, project=project), self.open(new, project=project, now=now)
        fork_log(source, target, upto=upto, now=now)
        return target

    def _is_folder(self, name: str, folder: int) -> bool:
        return stat.S_ISDIR(self.tree.files.stat(name, at=folder).st_mode)
