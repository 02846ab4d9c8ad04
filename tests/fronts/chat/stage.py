"""A chat on a scripted provider: a workspace, a store, and the same parts that the command puts together."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ebbtide.config import Access, Settings
from ebbtide.fronts.chat.permission import PermissionAnswer, PermissionQuestion, Rules
from ebbtide.fronts.chat.providers import make_provider
from ebbtide.fronts.chat.session import Chat, Setup, open_chat
from ebbtide.store import open_store
from upstream.server import Upstream

MODELS = {"anthropic": "claude-sonnet-5", "openai": "gpt-5", "responses": "gpt-5", "gemini": "gemini-2.5-pro"}


@dataclass
class Stage:
    """Where a chat plays."""

    folder: Path
    upstream: Upstream
    provider: str = "anthropic"
    window: int = 200_000
    answer: Callable[[PermissionQuestion], PermissionAnswer] = lambda question: PermissionAnswer(allowed=True)
    events: list[object] = field(default_factory=list)
    asked: list[PermissionQuestion] = field(default_factory=list)

    @property
    def root(self) -> Path:
        root = Path(os.path.realpath(self.folder)) / "work"
        root.mkdir(exist_ok=True)
        return root

    def _ask(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asked.append(question)
        return self.answer(question)

    def setup(self, **changes: object) -> Setup:
        url = self.upstream.url + ("" if self.provider in ("anthropic", "gemini") else "/v1")
        access = Access(
            home=self.folder / "home", config=self.folder / "config", trust=self.folder / "config" / "trust.json"
        )
        told = {
            "provider": make_provider(self.provider, MODELS[self.provider], url, access),
            "settings": Settings(model=MODELS[self.provider], window=self.window),
            "access": access,
            "store": open_store(self.folder / "store", durable=False),
            "project": str(self.root),
            "rules": Rules(root=self.root),
            "ask": self._ask,
            "on_event": self.events.append,
        }
        return Setup(**{**told, **changes})

    def chat(self, session: str = "20260101-000000-000", **changes: object) -> Chat:
        return open_chat(self.setup(**changes), session)
