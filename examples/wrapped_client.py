"""An agent on Anthropic's SDK with a wrapped client: 40 tool calls in a window of 16,000 tokens.

`provider` is scripted so that it runs without a key. In real life leave `http_client` out.
"""

import itertools
import json

import anthropic
import httpx2

import ebbtide

TOOL = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object"}}
NUMBERS = itertools.count(1)


def provider(request: httpx2.Request) -> httpx2.Response:
    """Calls the tool forty times, then says how much it was sent at last."""
    used, asked = len(request.content) // 4, next(NUMBERS)
    content = [{"type": "tool_use", "id": f"toolu_{asked}", "name": "read", "input": {"path": f"log.{asked}"}}]
    if asked > 40:
        content = [{"type": "text", "text": f"Done; the last of {asked} requests had some {used:,} tokens."}]
    answer = {"type": "message", "role": "assistant", "content": content, "usage": {"input_tokens": used}}
    return httpx2.Response(200, content=json.dumps(answer), headers={"content-type": "application/json"})


http = httpx2.Client(transport=httpx2.MockTransport(provider))
client = ebbtide.wrap(anthropic.Anthropic(api_key="none", http_client=http), window=16_000)
history: list[dict[str, object]] = [{"role": "user", "content": "Read all the logs."}]
while True:
    reply = client.messages.create(model="claude-sonnet-5", max_tokens=500, tools=[TOOL], messages=history)
    history.append({"role": "assistant", "content": reply.content})
    calls = [block for block in reply.content if block.type == "tool_use"]
    if not calls:
        break
    results = [{"type": "tool_result", "tool_use_id": one.id, "content": "all is well\n" * 300} for one in calls]
    history.append({"role": "user", "content": results})
print(reply.content[0].text, f"{reply._ebbtide.held} edits hold; the history here is whole: {len(history)} messages.")
