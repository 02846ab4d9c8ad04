"""Sessions that were recorded, to look for something in them."""

import json

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.runtime.session_log import Transcript
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

SOURCE = 'def parse_header(line):\n    # commit 9f8e7d6c5b\n    raise ValueError("bad\\tline")\n'


def use(id, tool, **args):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": tool, "input": args}]}


def got(id, text):
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}


TALK = {
    "anthropic": [
        {"role": "user", "content": "修复连接被拒绝的错误"},
        {"role": "assistant", "content": [{"type": "text", "text": "I read the parser."}, *use("t1", "Read", file_path="src/net/parser.py")["content"]]},
        got("t1", SOURCE),
    ],
    "openai_chat": [
        {"role": "user", "content": "修复连接被拒绝的错误"},
        {"role": "assistant", "content": "I read the parser.", "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "Read", "arguments": json.dumps({"file_path": "src/net/parser.py"})}}]},
        {"role": "tool", "tool_call_id": "t1", "content": SOURCE},
    ],
    "openai_responses": [
        {"role": "user", "content": "修复连接被拒绝的错误"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I read the parser."}]},
        {"type": "function_call", "call_id": "t1", "name": "Read", "arguments": json.dumps({"file_path": "src/net/parser.py"})},
        {"type": "function_call_output", "call_id": "t1", "output": SOURCE},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "修复连接被拒绝的错误"}]},
        {"role": "model", "parts": [{"text": "I read the parser."}, {"functionCall": {"name": "Read", "args": {"file_path": "src/net/parser.py"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "Read", "response": {"output": SOURCE}}}]},
    ],
    "bedrock_converse": [
        {"role": "user", "content": [{"text": "修复连接被拒绝的错误"}]},
        {"role": "assistant", "content": [{"text": "I read the parser."}, {"toolUse": {"toolUseId": "t1", "name": "Read", "input": {"file_path": "src/net/parser.py"}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": SOURCE}]}}]},
    ],
}  # fmt: skip


def record(log, messages, wire="anthropic"):
    """The messages into the log as a request would bring them; the items they became."""
    request = Reader(DEFAULT, wire=WIRES[wire]).read({WIRES[wire].list_key: messages})
    transcript = Transcript(session=log.session)
    transcript.learn(log.read().records)
    log.commit(transcript.records_for_request(request, 1.0), at=1.0)
    return request.items


def talk(store, session, text, project=""):
    log = store.open(session, project=project, now=1.0)
    record(log, [{"role": "user", "content": text}])
    return log
