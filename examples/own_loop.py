"""A whole agent loop. `answer` is scripted so that it runs without a key; a client's call takes its place."""

from ebbtide import Conversation

SCRIPT = [
    [{"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 19, "b": 23}}],
    [{"type": "text", "text": "It is 42."}],
]
TOOLS = [{"name": "add", "description": "Adds two numbers.", "input_schema": {"type": "object"}}]


def answer(request: dict[str, object]) -> dict[str, object]:
    """In real life: `return client.messages.create(**request)`."""
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    return {"role": "assistant", "content": SCRIPT[turn]}


def run(question: str) -> str:
    talk = Conversation(model="claude-sonnet-5", system="You help with sums.", tools=TOOLS, max_tokens=1024)
    talk.inject("reminder", "Use the tool; do not add in your head.")
    talk.user(question)
    while True:
        response = answer(talk.request())
        talk.assistant(response)
        calls = [block for block in response["content"] if block["type"] == "tool_use"]
        if not calls:
            return response["content"][-1]["text"]
        for call in calls:
            talk.tool_result(call["id"], str(sum(call["input"].values())))


if __name__ == "__main__":
    print(run("What is 19 + 23?"))
