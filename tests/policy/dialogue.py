"""Histories at exactly the boundary values, and a context whose bill and clock a test sets."""

import json

from ebbtide.core.errors import StoreError
from ebbtide.runtime import Context


class Clock:
    def __init__(self, at=1_000_000.0):
        self.at = at

    def __call__(self):
        return self.at


class Refusing:
    """A store whose disk is full: nothing can be kept."""

    def __init__(self, inner):
        self._inner = inner

    def open(self, session, *, project="", now):
        return _FullLog(self._inner.open(session, project=project, now=now))


class _FullLog:
    def __init__(self, log):
        self._log = log

    def save_blob(self, name, text):
        raise StoreError("no space left on device")

    def __getattr__(self, name):
        return getattr(self._log, name)


def context(policy, *, window=200_000, clock=None, **options):
    options = {"marks": False, **options}
    return Context(model="claude-opus-4-5", window=window, policy=policy, clock=clock or Clock(), **options)


def step(n, tool, content, **arguments):
    """A call and its result, Anthropic."""
    use = {"type": "tool_use", "id": f"t{n}", "name": tool, "input": arguments or {"n": n}}
    answer = {"type": "tool_result", "tool_use_id": f"t{n}", "content": content}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]


def chat_step(n, tool, content, arguments="{}"):
    """The same, OpenAI chat."""
    use = {"id": f"t{n}", "type": "function", "function": {"name": tool, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [use]},
        {"role": "tool", "tool_call_id": f"t{n}", "content": content},
    ]


def user(text):
    return {"role": "user", "content": text}


def said(text):
    return {"role": "assistant", "content": text}


def body(messages, max_tokens=1000, **more):
    return {"model": "claude-opus-4-5", "max_tokens": max_tokens, "messages": messages, **more}


def chat_body(messages, **more):
    return {"model": "gpt-4o", "messages": messages, **more}


def billed(ctx, messages, *, input=None, cache_read=0, output=0, wrap=body):
    """Send a request and be billed for it: by its length, unless told otherwise."""
    ready = ctx.prepare(wrap(messages))
    input = len(json.dumps(ready.body)) // 4 if input is None else input
    if wrap is chat_body:
        usage = {"prompt_tokens": input, "completion_tokens": output}
        ctx.record({"choices": [{"message": {"role": "assistant", "content": "ok"}}], "usage": usage})
    else:
        usage = {"input_tokens": input, "cache_read_input_tokens": cache_read, "output_tokens": output}
        ctx.record({"role": "assistant", "content": [{"type": "text", "text": "ok"}], "usage": usage})
    return ready


def results(ready):
    """From a call's id to the text of its result, in what goes out."""
    return _results(ready.body["messages"])


def _results(messages):
    found = {}
    for message in messages:
        if message["role"] == "tool":
            found[message["tool_call_id"]] = message["content"]
        blocks = message["content"] if isinstance(message["content"], list) else []
        for block in blocks:
            if block.get("type") == "tool_result":
                found[block["tool_use_id"]] = block["content"]
    return found


def changed(ready, messages):
    """Ids of calls whose result went out otherwise than it came in."""
    before = _results(messages)
    return {id for id, text in results(ready).items() if text != before[id]}
