"""OpenAI's Chat Completions, asynchronously, with events. Two requests of one agent, several agents at once."""

import asyncio

import ebbtide

QUESTION = {"role": "user", "content": "What does the log say?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "log"}'}}
ANSWER = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}]}


async def agent(name: str) -> int:
    def told(event: ebbtide.Event) -> None:
        if event.kind == "edit":
            print(f"{name}: {event.fields['by']} saved {event.fields['saved']} tokens")

    context = ebbtide.Context(model="gpt-5", window=32_000, session=name, on_event=told)
    messages = [QUESTION]
    ready = await context.aprepare({"model": "gpt-5", "messages": messages})
    ready.record(ANSWER)  # in real life: await client.chat.completions.create(**ready.body)
    result = {"role": "tool", "tool_call_id": "c1", "content": f"a line of {name}\n" * 5000}
    messages = [*messages, ANSWER["choices"][0]["message"], result]
    ready = await context.aprepare({"model": "gpt-5", "messages": messages})
    return ready.report.tokens_after


async def main() -> None:
    print(await asyncio.gather(agent("north"), agent("south")))


if __name__ == "__main__":
    asyncio.run(main())
