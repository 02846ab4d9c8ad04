"""A store in a directory: one folder a project, one log file a session, private to their owner."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from ebbtide.core.errors import StoreError
from ebbtide.store.directory.file_names import project_slug, session_stem
from ebbtide.store.directory.gc import collect, delete
from ebbtide.store.directory.lease import leases_of
from ebbtide.store.directory.log import PROJECTS, DirectoryLog
from ebbtide.store.directory.safe_fs import FileSystem, StoreRoot, as_store_error
from ebbtide.store.directory.session_index import refresh_index, remove_empty_index
from ebbtide.store.protocol import GcResult, SessionInfo
from ebbtide.store.sessions import fork_log
from ebbtide.store.tenants import tenant_project


class DirectoryStore:
    def __init__(self, path: str | os.PathLike[str], *, durable: bool = True, fs: FileSystem | None = None) -> None:
        self.root = StoreRoot(fs=fs or FileSystem(), path=os.path.abspath(path), durable=durable)
        self._leases = leases_of(self.root)

    def open(self, session: str, *, project: str = "", now: float) -> DirectoryLog:
        log = DirectoryLog(self.root, session, project, now, self._leases)
        log.check_project()
        log.repair()
        return log

    def peek(self, session: str, *, project: str = "") -> DirectoryLog:
        log = DirectoryLog(self.root, session, project, 0.0)
        log.check_project()
        return log

    def list_sessions(self) -> list[SessionInfo]:
        with as_store_error(f"list the sessions in {self.root.path}"):
            sessions = [info for slug in self.project_slugs() for info in refresh_index(self.root, (PROJECTS, slug))]
        return sorted(sessions, key=lambda info: info.modified, reverse=True)

    def project_slugs(self) -> list[str]:
        """Return the names of the project folders. A link among them is ignored."""
        try:
            with self.root.folder(PROJECTS) as folder:
                return [name for name in folder.names() if stat.S_ISDIR(folder.stat(name).st_mode)]
        except FileNotFoundError:
            return []

    def projects_of(self, session: str) -> list[str]:
        return [info.project for info in self.list_sessions() if info.session == session]

    def check(self) -> None:
        """A folder that cannot be used says so when it is."""

    def gc(
        self, *, older_than: float | None = None, max_bytes: int | None = None, now: float, dry_run: bool = False
    ) -> GcResult:
        folders = self.project_slugs()
        return collect(self.root, folders, older_than=older_than, max_bytes=max_bytes, now=now, dry_run=dry_run)

    def delete_session(self, session: str, *, project: str = "", force: bool = False) -> GcResult:
        self.peek(session, project=project)  # refuses the session of another project in a folder of the same name
        place = (PROJECTS, project_slug(project), session_stem(session))
        result = delete(self.root, self.project_slugs(), {place}, force=force)
        if not result.sessions:
            raise StoreError(f"there is no session {session!r} of ours to delete")
        return result

    def delete_tenant(self, tenant: str, *, force: bool = False) -> GcResult:
        project = tenant_project(tenant)
        folder = (PROJECTS, project_slug(project))
        places = {(*folder, session_stem(info.session)) for info in self.list_sessions() if info.project == project}
        result = delete(self.root, self.project_slugs(), places, force=force)
        with suppress(OSError), self.root.folder(PROJECTS) as projects:
            remove_empty_index(self.root, folder)
            projects.rmdir(folder[-1])
        return result

    def fork(self, session: str, new: str, *, project: str = "", upto: int | None = None, now: float) -> DirectoryLog:
        source, target = self.peek(session, project=project), self.open(new, project=project, now=now)
        fork_log(source, target, upto=upto, now=now)
        return target
