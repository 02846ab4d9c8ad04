"""What was taken out comes back: leave its edits out, and the originals stand there again."""

import ebbtide

RESULT = "line of a build log\n" * 6000
MESSAGES = [
    {"role": "user", "content": "Why does the build fail?"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": RESULT}]},
]
request = {"model": "claude-sonnet-5", "max_tokens": 1000, "messages": MESSAGES}


def shown(body: dict) -> str:
    return body["messages"][2]["content"][0]["content"]


context = ebbtide.Context(window=64_000)
print(shown(context.prepare(request).body)[:60])

(edit,) = context.undo()
print(f"took back: {edit.by}, {edit.reason}")
assert shown(context.prepare(request).body) == RESULT

context.redo()
assert shown(context.prepare(request).body) != RESULT
