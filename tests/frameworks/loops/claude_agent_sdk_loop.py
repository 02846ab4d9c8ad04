"""Claude Agent SDK: the Claude Code that it brings, behind a proxy of ours."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import nullcontext
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from frameworks.scenario import PAUSE, STEPS, path_of, read_page, task

WINDOW = 60_000
"""Its prompt and tools alone take 20,000 tokens."""
QUIET = {
    "ANTHROPIC_API_KEY": "k",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "4096",
    "IS_SANDBOX": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str) -> None:
    proxy = nullcontext({"ANTHROPIC_BASE_URL": url})
    if options is not None:
        from ebbtide.adapters.claude_agent_sdk import run_proxy

        proxy = run_proxy(store=options["store"], window=WINDOW, upstream=url, recall="tool")
    with tempfile.TemporaryDirectory() as folder, proxy as environment:
        for step in range(1, STEPS + 1):
            for path in (path_of(conversation, step), path_of(conversation, 1000 + step)):
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(read_page(path) * 2, encoding="utf-8")
        asyncio.run(talk(folder, {**QUIET, "CLAUDE_CONFIG_DIR": f"{folder}/.claude", **environment}, conversation))


async def talk(folder: str, environment: dict[str, str], conversation: str) -> None:
    options = ClaudeAgentOptions(
        cwd=folder,
        env=environment,
        model="claude-sonnet-4-5",
        allowed_tools=["Read"],
        max_turns=STEPS + PAUSE,
        setting_sources=[],
    )
    async with ClaudeSDKClient(options) as client:
        for text in (task(conversation), "Go on."):
            await client.query(text)
            async for message in client.receive_response():
                if type(message).__name__ == "ResultMessage" and message.is_error:
                    raise RuntimeError(str(message.result)[:300])
