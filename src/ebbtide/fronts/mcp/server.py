"""Serve one session's records by two MCP tools. Calls run in a thread, one at a time.

The `mcp` package, which implements the protocol, is imported when a server starts, so that `ebb --help` works without.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ebbtide.core import texts
from ebbtide.core.errors import BadConfig, BadRequest, EbbtideError
from ebbtide.recall.search import RecallSearch
from ebbtide.recall.tools import try_answer_call
from ebbtide.store import SessionInfo, Store
from ebbtide.wire.recall_tools import recall_definitions

if TYPE_CHECKING:
    from mcp.server import Server

NAME = "ebbtide"


@dataclass(slots=True)
class RecallServer:
    """Answers tool calls from one session: the named one, or the newest of its projects."""

    stores: Sequence[Store]
    """A database shows each tenant by a separate store."""
    projects: frozenset[str]
    """Projects whose sessions may be read."""
    session: str = ""
    """Empty for the newest at each call: a server may start before its session."""
    _recall: RecallSearch | None = None
    _opened: tuple[str, str] = ("", "")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, name: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """Return the text, and whether the call failed."""
        with self._lock:
            try:
                recall = self._open_recall()
            except EbbtideError as error:
                return texts.recall_error(str(error)), True
            return try_answer_call(recall, name, arguments)

    def _open_recall(self) -> RecallSearch:
        store, info = self._choose_session()
        if self._recall is None or self._opened != (info.project, info.session):
            if self._recall is not None:
                self._recall.close()
            log = store.peek(info.session, project=info.project)
            self._recall = RecallSearch(log=log, store=store, project=info.project)
            self._opened = (info.project, info.session)
        return self._recall

    def _choose_session(self) -> tuple[Store, SessionInfo]:
        found = [(store, info) for store in self.stores for info in store.list_sessions()]
        found = [(store, info) for store, info in found if info.project in self.projects]
        if self.session:
            candidates = [one for one in found if one[1].session == self.session]
        else:
            infos = [info for _, info in found]
            candidates = [one for one in found if not _is_child(one[1], infos)]
        if not candidates:
            name = f" {self.session!r}" if self.session else ""
            raise BadRequest(f"this project has no session{name} yet. To serve another one, see ebb mcp --help")
        return candidates[0] if len(self.stores) == 1 else max(candidates, key=lambda one: one[1].modified)


def _is_child(info: SessionInfo, sessions: Sequence[SessionInfo]) -> bool:
    """Whether it is a sub-agent's session: while that works it is the newest, but its parent is to be served."""
    return any(other.project == info.project and info.session.startswith(f"{other.session}.") for other in sessions)


def serve(recall_server: RecallServer) -> None:
    """Serve over stdio until the client closes the connection."""
    try:
        import anyio  # noqa: PLC0415
        from mcp.server.stdio import stdio_server  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig(f"ebb mcp needs {error.name}: pip install 'ebbtide[mcp]'") from None

    async def run() -> None:
        server = build_server(recall_server)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)


def build_server(recall_server: RecallServer) -> Server[dict[str, object]]:
    """Build the MCP server, for any transport."""
    import anyio.to_thread  # noqa: PLC0415
    import mcp_types as types  # noqa: PLC0415
    from mcp.server import Server  # noqa: PLC0415

    tools = [
        types.Tool(
            name=name,
            description=description,
            input_schema=schema,
            annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        )
        for name, description, schema in recall_definitions()
    ]

    async def list_tools(_: object, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        text, is_error = await anyio.to_thread.run_sync(recall_server.answer, params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    return Server(NAME, instructions=texts.MCP_INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)
