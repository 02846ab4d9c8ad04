"""Agents as people write them with the official SDKs: they keep their whole history and know nothing of Ebbtide.

Each takes a wrapped client and gives, for one turn of the model, the entries that go into the history and the report
that came with the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from upstream.finding import Body
from upstream.script import Part, Say, Think, Use

SYSTEM = "You are a careful engineer. Read before you write. " * 40
MODELS = {"anthropic": "claude-opus-5-5", "chat": "gpt-5", "responses": "gpt-5-codex"}


def script(wire: str, *, ends: bool = True):
    """Every eighth request ends a turn; in between one or two tools are called. Several talks at once never end."""
    counted = iter(range(10**6))

    def said(body: Body) -> list[Part]:
        n = next(counted)
        parts: list[Part] = [] if wire == "chat" else [Think(f"thought {n}: look before you leap")]
        if ends and n % 8 == 7:
            return [*parts, Say(f"Done with part {n}. " * 20)]
        return [*parts, Say(f"step {n}"), *(Use("read", {"path": f"src/f{n}_{at}.py"}) for at in range(1 + n % 2))]

    return said


def output(call_id: str) -> str:
    return f"{call_id}: def step(queue, lock): return queue.take()\n" * 60


@dataclass
class Talk:
    """A conversation between one agent and its user, of so many model calls."""

    agent: str
    ends: bool = True
    history: list = field(default_factory=list)
    reports: list = field(default_factory=list)

    def turns(self, number: int):
        for n in range(number):
            if n % 8 == 0 and (self.ends or n == 0):
                self.history.append({"role": "user", "content": f"Now do part {n // 8}, please."})
            yield n

    def took(self, entries, report) -> None:
        self.history += entries
        self.reports.append(report)


# --- Anthropic --------------------------------------------------------------------------------------------------------

TOOL = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object"}}


def anthropic_request(talk: Talk):
    return {
        "model": MODELS["anthropic"],
        "max_tokens": 2_000,
        "system": SYSTEM,
        "thinking": {"type": "adaptive"},
        "tools": [TOOL],
        "messages": talk.history,
    }


def anthropic_entries(message):
    """The answer's own objects go into the history, as the SDK's pages show it."""
    uses = [block for block in message.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": output(use.id)} for use in uses]
    told = {"role": "assistant", "content": message.content}
    return [told, {"role": "user", "content": results}] if results else [told]


def anthropic_create(client, talk):
    message = client.messages.create(**anthropic_request(talk))
    return anthropic_entries(message), message._ebbtide


def anthropic_stream(client, talk):
    with client.messages.stream(**anthropic_request(talk)) as stream:
        return anthropic_entries(stream.get_final_message()), stream.response._ebbtide


async def anthropic_acreate(client, talk):
    message = await client.messages.create(**anthropic_request(talk))
    return anthropic_entries(message), message._ebbtide


async def anthropic_astream(client, talk):
    async with client.messages.stream(**anthropic_request(talk)) as stream:
        return anthropic_entries(await stream.get_final_message()), stream.response._ebbtide


# --- OpenAI Chat ------------------------------------------------------------------------------------------------------

# Some versions stream only tools that are strict.
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
SCHEMA["additionalProperties"] = False
FUNCTION = {"type": "function", "function": {"name": "read", "parameters": SCHEMA, "strict": True}}
USAGE = {"include_usage": True}


def chat_request(talk: Talk):
    return {
        "model": MODELS["chat"],
        "max_completion_tokens": 2_000,
        "messages": [{"role": "system", "content": SYSTEM}, *talk.history],
        "tools": [FUNCTION],
    }


def chat_entries(message):
    calls = message.tool_calls or []
    results = [{"role": "tool", "tool_call_id": call.id, "content": output(call.id)} for call in calls]
    return [message, *results]


def chat_create(client, talk):
    completion = client.chat.completions.create(**chat_request(talk))
    return chat_entries(completion.choices[0].message), completion._ebbtide


def chat_stream(client, talk):
    with client.chat.completions.stream(**chat_request(talk), stream_options=USAGE) as stream:
        message = stream.get_final_completion().choices[0].message
        return chat_entries(message), stream._response._ebbtide


async def chat_acreate(client, talk):
    completion = await client.chat.completions.create(**chat_request(talk))
    return chat_entries(completion.choices[0].message), completion._ebbtide


async def chat_astream(client, talk):
    async with client.chat.completions.stream(**chat_request(talk), stream_options=USAGE) as stream:
        message = (await stream.get_final_completion()).choices[0].message
        return chat_entries(message), stream._response._ebbtide


# --- OpenAI Responses -------------------------------------------------------------------------------------------------

READ = {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}, "strict": False}


def responses_request(talk: Talk):
    return {
        "model": MODELS["responses"],
        "instructions": SYSTEM,
        "store": False,
        "max_output_tokens": 2_000,
        "input": talk.history,
        "tools": [READ],
    }


def responses_entries(response):
    calls = [item for item in response.output if item.type == "function_call"]
    results = [
        {"type": "function_call_output", "call_id": call.call_id, "output": output(call.call_id)} for call in calls
    ]
    return [*response.output, *results]


def responses_create(client, talk):
    response = client.responses.create(**responses_request(talk))
    return responses_entries(response), response._ebbtide


def responses_stream(client, talk):
    stream = client.responses.create(**responses_request(talk), stream=True)
    done = [event.response for event in stream if event.type == "response.completed"]
    return responses_entries(done[0]), stream._ebbtide


async def responses_acreate(client, talk):
    response = await client.responses.create(**responses_request(talk))
    return responses_entries(response), response._ebbtide


async def responses_astream(client, talk):
    stream = await client.responses.create(**responses_request(talk), stream=True)
    done = [event.response async for event in stream if event.type == "response.completed"]
    return responses_entries(done[0]), stream._ebbtide


SYNC = [anthropic_create, anthropic_stream, chat_create, chat_stream, responses_create, responses_stream]
ASYNC = [anthropic_acreate, anthropic_astream, chat_acreate, chat_astream, responses_acreate, responses_astream]
LONG = [anthropic_create, anthropic_stream, chat_create, chat_stream, responses_stream]
ALONG = [anthropic_acreate, chat_acreate]
