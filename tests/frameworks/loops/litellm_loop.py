"""A loop around `litellm.completion`, plain, awaited, streamed and both."""

from __future__ import annotations

import asyncio
import json

import litellm

from frameworks.scenario import SYSTEM, WINDOW, read_page, task

litellm.suppress_debug_info = True
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOL = {
    "type": "function",
    "function": {"name": "read_file", "description": "Reads a file.", "parameters": PARAMETERS},
}
MODELS = {"anthropic": "anthropic/claude-sonnet-5", "openai_chat": "openai/gpt-4.1"}


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str, *, own: bool = False) -> None:
    chat, tools = litellm, [TOOL]
    if options is not None:
        from ebbtide.adapters.litellm import Completions

        chat = Completions(window=WINDOW, recall="tool", **options)
        tools = [TOOL, *chat.recall_tools()]
    messages = [{"role": "system", "content": SYSTEM}]
    base = url if wire == "anthropic" else f"{url}/v1"
    request = {"model": MODELS[wire], "api_key": "k", "api_base": base, "tools": tools, "max_tokens": 1024}
    request |= {"num_retries": 0, "metadata": {"session_id": "brest"}}

    def compressed(messages: list) -> dict:
        short = litellm.compress(messages, MODELS[wire], compression_trigger=WINDOW * 4 // 5)
        return {"messages": short["messages"], "tools": [TOOL, *short["tools"]]}

    async def ask_async_stream():
        options = {"include_usage": True}
        chunks = await chat.acompletion(messages=messages, stream=True, stream_options=options, **request)
        return litellm.stream_chunk_builder([chunk async for chunk in chunks])

    def ask():
        if own:
            return litellm.completion(**{**request, **compressed(messages)})
        if mode == "astream":
            return asyncio.run(ask_async_stream())
        if mode == "async":
            return asyncio.run(chat.acompletion(messages=messages, **request))
        if mode == "stream":
            options = {"include_usage": True}
            chunks = chat.completion(messages=messages, stream=True, stream_options=options, **request)
            return litellm.stream_chunk_builder(list(chunks))
        return chat.completion(messages=messages, **request)

    for text in (task(conversation), "Go on."):
        messages.append({"role": "user", "content": text})
        for _ in range(200):
            message = ask().choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            messages += [_result(chat, call) for call in message.tool_calls]


def _result(chat, call) -> dict:
    arguments = json.loads(call.function.arguments)
    if call.function.name == "read_file":
        text = read_page(arguments["path"])
    else:
        text = chat.answer_recall("brest", call.function.name, call.function.arguments)
    return {"role": "tool", "tool_call_id": call.id, "content": text}
