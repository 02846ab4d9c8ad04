"""A poisoned history never wedges a session: it loads, projects, passes, and the log keeps it as it came."""

import copy
import json

import pytest

from ebbtide import BadRequest, Context
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from poison.anthropic_cases import CASES as ANTHROPIC
from poison.bedrock_cases import BEDROCK
from poison.gemini_cases import GEMINI
from poison.openai_cases import CHAT, RESPONSES

CASES = [*ANTHROPIC, *CHAT, *RESPONSES, *GEMINI, *BEDROCK]


def as_text(value):
    return json.dumps(value, sort_keys=True, default=str)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_session_accepts_it_and_the_next_turn_too(case):
    store, given = MemoryStore(), copy.deepcopy(case.body)
    ctx = Context(store=store, session="poison", window=200_000, wire=case.wire)
    if case.refused:
        with pytest.raises(BadRequest) as refused:
            ctx.prepare(case.body)
        assert refused.value.path or str(refused.value)
        return

    first = ctx.prepare(case.body)
    again = ctx.prepare(case.body)

    assert violations(WIRES[case.wire], first.body) == []
    assert as_text(again.body) == as_text(first.body)
    assert as_text(case.body) == as_text(given)


@pytest.mark.parametrize("case", [case for case in CASES if not case.refused], ids=lambda case: case.name)
def test_the_log_has_the_received_messages_and_not_the_repaired_ones(case):
    key = WIRES[case.wire].list_key
    if not isinstance(case.body[key], list) or "previous_response_id" in case.body or "conversation" in case.body:
        pytest.skip("a bare string is one message; what the server keeps passes through")
    store = MemoryStore()
    Context(store=store, session="poison", window=200_000, wire=case.wire).prepare(case.body)

    records = store.peek("poison").read().records
    kept = [record.get("wire") or record["message"] for record in records if "message" in record]

    assert as_text(kept) == as_text(case.body[key])
