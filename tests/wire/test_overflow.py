"""Real refusals for size are read into numbers, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.wire.overflow import PROVIDERS, ROWS, Overflow, compile_wording, find_overflow, find_overflow_in_error
from wire.refusals import HOSTED, OPENAI, TERSE, anthropic, openai
from wire.self_hosted_refusals import SERVED

SEEN = [*HOSTED, *SERVED]


@pytest.mark.parametrize(("who", "status", "body", "used", "limit"), SEEN, ids=[one[0] for one in SEEN])
def test_a_real_refusal_gives_its_numbers(
    who: str, status: int | None, body: Any, used: int | None, limit: int | None
) -> None:
    overflow = find_overflow(status, body if not isinstance(body, list) else json.dumps(body))

    assert overflow is not None, who
    assert (overflow.used, overflow.limit, overflow.unit) == (used, limit, "tokens")


@pytest.mark.parametrize(("who", "status", "body", "used", "limit"), SEEN, ids=[one[0] for one in SEEN])
def test_text_bytes_and_objects_are_read_the_same_way(
    who: str, status: int | None, body: Any, used: int | None, limit: int | None
) -> None:
    text = body if isinstance(body, str) else body.decode() if isinstance(body, bytes) else json.dumps(body)

    assert find_overflow(status, text) == find_overflow(status, text.encode())
    if isinstance(body, dict):
        assert find_overflow(status, text) == find_overflow(status, body)


@pytest.mark.parametrize(("body", "used", "limit"), TERSE)
def test_a_refusal_with_less_detail_is_still_recognized(body: Any, used: int | None, limit: int | None) -> None:
    overflow = find_overflow(400, body)

    assert overflow is not None
    assert (overflow.used, overflow.limit, overflow.unit) == (used, limit, "tokens")


def test_every_wording_is_needed() -> None:
    """A row that no example needs would be a row that nobody has seen."""
    bodies = [body for _, _, body, *_ in SEEN] + [body for body, *_ in TERSE] + [body for _, body, *_ in OTHER_UNITS]
    texts = [body.decode() if isinstance(body, bytes) else body for body in bodies]
    plain = [" ".join((one if isinstance(one, str) else json.dumps(one)).split()) for one in texts]
    needed = {
        next((at for at, (*_, row) in enumerate(ROWS) if compile_wording(row).search(text)), None) for text in plain
    }

    assert [ROWS[at][2] for at in range(len(ROWS)) if at not in needed] == []


def test_at_least_25_providers_and_servers_are_known() -> None:
    found = [
        find_overflow(status, json.dumps(body) if isinstance(body, list) else body) for _, status, body, *_ in SEEN
    ]
    said = {one.provider for one in found if one is not None}

    assert len(said) >= 25
    assert len({who.split(",")[0] for who, *_ in SEEN}) >= 35
    assert said <= PROVIDERS


def test_output_that_counts_against_the_window_is_recognized() -> None:
    """What has to go is what is over, and the driver may lower the output instead."""
    overflow = find_overflow(
        400, "input length and `max_tokens` exceed context limit: 174167 + 64000 > 200000, decrease"
    )

    assert overflow == Overflow(used=174167, output=64000, limit=200000, over=38167, provider="anthropic")


def test_a_provider_that_reports_only_the_excess_gives_that() -> None:
    overflow = find_overflow(400, {"error": "prompt too long; exceeded max context length by 65590 tokens"})

    assert overflow == Overflow(used=None, limit=None, over=65590, provider="ollama")


OTHER_UNITS: list[tuple[int, Any, int | None, int | None, str]] = [
        (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
         None, None, "bytes"),
        (413, "<html><body>413 Request Entity Too Large nginx</body></html>", None, None, "bytes"),
        (413, "", None, None, "bytes"),
        (400, "Sent message larger than max (50000056 vs. 20971520)", 50000056, 20971520, "bytes"),
        (400, {"message": "too many total text bytes: 30000000 > 25000000"}, None, None, "bytes"),
        (400, {"message": "Malformed input request: expected maxLength: 50000, actual: 67000, please reformat"},
         67000, 50000, "characters"),
    ]  # fmt: skip

NOT_A_SIZE: list[tuple[str, int | None, Any]] = [
    (
        "OpenAI, tokens per minute",
        429,
        "Request too large for gpt-4o in organization org-z on tokens per min (TPM): Limit 30000, Requested 132819. The "
        "input or output tokens must be reduced in order to run successfully.",
    ),
    (
        "Groq, tokens per minute with 413",
        413,
        openai(
            "Request too large for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on "
            "tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
    ),
    ("Bedrock, throttled", 400, "Too many tokens, please wait before trying again."),
    ("Anthropic, rate", 429, anthropic("This request would exceed your organization's rate limit of 40,000 input tokens")),
    ("any, overflow words with 429", 429, "prompt is too long: 219898 tokens > 200000 maximum"),
    ("OpenAI, a long id (C4)", 400, openai(
        "Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a "
        "string with length 41 instead.", code="string_above_max_length")),
    ("OpenAI, output alone", 400, openai(
        "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, whereas you provided "
        "20000.", code=None)),
    ("Anthropic, output alone", 400, anthropic(
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5")),
    ("Databricks, output alone", 400, "Bad request: rpc error: code = InvalidArgument desc = max_tokens (10000) cannot "
     "exceed 8192. Please reduce the length of max output tokens generated."),
    ("Bedrock, output alone", 400, "The maximum tokens you requested exceeds the model limit of 2048. Try again with a "
     "maximum tokens value that is lower than 2048."),
    ("Cohere, output alone", 400, {"message": "too many tokens: max tokens must be less than or equal to 4096, the "
     "maximum output for this model - received 8192."}),
    ("TGI, output alone", 422, {"error": "Input validation error: `max_new_tokens` must be <= 192. Given: 200"}),
    ("an image", 400, anthropic("messages.3.content.1.image.source.base64.data: At least one of the image dimensions "
     "exceed max allowed size: 8000 pixels")),
    ("too many images", 400, openai("Invalid 'messages[2].content': array too long. Expected an array with maximum "
     "length 50, but got an array with length 51 instead.",
            code="array_above_max_length")),
    ("no key", 401, openai("Incorrect API key provided", code="invalid_api_key")),
    ("overloaded", 529, anthropic("Overloaded")),
    ("nothing", 400, ""),
    ("not JSON", 400, b"\xff\xfe{"),
]  # fmt: skip


@pytest.mark.parametrize(("who", "status", "body"), NOT_A_SIZE, ids=[one[0] for one in NOT_A_SIZE])
def test_an_error_about_something_else_is_no_overflow(who: str, status: int | None, body: Any) -> None:
    assert find_overflow(status, body) is None, who


@pytest.mark.parametrize(
    "body",
    [
        {"detail": [{"type": "missing", "msg": "Field required", "input": {"messages": "prompt is too long"}}]},
        {"error": {"message": "bad tool schema", "input": "context_length_exceeded"}},
        {"error": {"message": "no", "metadata": {"raw": '{"detail": "no", "input": "context_length_exceeded"}'}}},
        {"error": {"message": "cannot parse: " + "x" * 20_000 + " context_length_exceeded"}},
        {"error": {"message": "bad request"}, "messages": [{"content": "exceeds the available context size"}]},
    ],
)
def test_a_request_that_is_echoed_is_not_the_errors_own_words(body: dict[str, Any]) -> None:
    assert find_overflow(422, body) is None
    assert find_overflow(422, json.dumps(body)) is None


@pytest.mark.parametrize(
    "body",
    [
        {"type": "message", "content": [{"type": "text", "text": "prompt is too long: 2 tokens > 1 maximum"}]},
        {"choices": [{"message": {"content": "context_length_exceeded"}}]},
        "prompt is too long: 2 tokens > 1 maximum",
    ],
)
def test_an_answer_that_mentions_overflow_is_no_overflow(body: Any) -> None:
    assert find_overflow(200, body) is None


@pytest.mark.parametrize(("status", "body", "used", "limit", "unit"), OTHER_UNITS)
def test_a_size_in_another_unit_teaches_no_window(
    status: int, body: Any, used: int | None, limit: int | None, unit: str
) -> None:
    overflow = find_overflow(status, body)

    assert overflow is not None
    assert (overflow.used, overflow.limit, overflow.unit) == (used, limit, unit)


# --- exceptions -------------------------------------------------------------------------------------------------------


class StatusError(Exception):
    """As the SDKs of Anthropic and OpenAI have it."""

    def __init__(self, message: str, status: int, body: object) -> None:
        super().__init__(message)
        self.message, self.status_code, self.body = message, status, body


class Unread:
    """An HTTP response that was streamed and never read."""

    status_code = 400

    @property
    def text(self) -> str:
        raise RuntimeError("the body was not read")


def test_an_sdk_error_is_read_from_its_body() -> None:
    # The OpenAI SDK gives the inside of `error` as the body.
    error = StatusError("Error code: 400", 400, {"message": OPENAI.format(8) + "your messages resulted in 9 tokens."})

    assert find_overflow_in_error(error) == Overflow(used=9, limit=8, over=1, provider="openai")


def test_an_sdk_error_is_read_from_its_message_when_it_has_no_body() -> None:
    error = StatusError("Error code: 400 - prompt is too long: 9 tokens > 8 maximum", 400, None)

    assert find_overflow_in_error(error) == Overflow(used=9, limit=8, over=1, provider="anthropic")


def test_an_error_of_an_http_client_is_read_from_its_response() -> None:
    error = Exception("Client error '400 Bad Request'")
    response = type(
        "Response", (), {"status_code": 400, "text": '{"error":"prompt too long; exceeded context length by 3 tokens"}'}
    )
    error.response = response()  # type: ignore[attr-defined]

    overflow = find_overflow_in_error(error)

    assert overflow is not None
    assert overflow.over == 3


def test_an_error_of_botocore_is_read() -> None:
    error = Exception("An error occurred (ValidationException) when calling the Converse operation: Input is too long")
    error.response = {"Error": {"Code": "ValidationException", "Message": "Input is too long for requested model."}}  # type: ignore[attr-defined]

    assert find_overflow_in_error(error) == Overflow(used=None, limit=None, provider="bedrock")


def test_the_status_of_a_response_rules_out_a_rate() -> None:
    error = Exception("prompt is too long: 9 tokens > 8 maximum")
    error.response = type("Response", (), {"status_code": 429, "text": ""})()  # type: ignore[attr-defined]

    assert find_overflow_in_error(error) is None


def test_an_error_wrapped_in_another_is_found() -> None:
    try:
        try:
            raise StatusError("no", 400, {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}})
        except StatusError as inner:
            raise ValueError("the agent failed") from inner
    except ValueError as outer:
        overflow = find_overflow_in_error(outer)

    assert overflow is not None
    assert overflow.limit == 8


def test_other_errors_are_not_overflows() -> None:
    looped = ValueError("one")
    looped.__cause__ = KeyError("two")
    looped.__cause__.__cause__ = looped
    unread = Exception("stream")
    unread.response = Unread()  # type: ignore[attr-defined]

    assert find_overflow_in_error(TimeoutError()) is None
    assert find_overflow_in_error(looped) is None
    assert find_overflow_in_error(unread) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["error", "message", "code", "n_ctx", "x"]), inner),
    max_leaves=8,
)


@given(
    st.none() | st.integers() | st.sampled_from([400, 413, 422, 500]),
    st.dictionaries(st.sampled_from(["error", "message", "raw"]), JSON) | st.text() | st.binary(),
)
def test_an_unknown_wording_is_no_overflow_except_under_the_status_that_means_one(
    status: int | None, body: Any
) -> None:
    """And nothing that a server says is an exception."""
    bytes_alone = Overflow(used=None, limit=None, provider="http", unit="bytes")

    assert find_overflow(status, body) == (bytes_alone if status == 413 else None)


def test_a_long_hostile_error_is_read_in_no_time() -> None:
    """Every wording is bounded: the work grows with the text, not with its square."""
    telling = "maximum context length is 8 tokens, however you requested 9 tokens ("
    read = [find_overflow(400, seed * 20_000) for seed in (telling, "n_keep: 1", "1" * 50, "{", "[" * 50)]

    assert read[0] is not None
    assert (read[0].limit, read[0].used) == (8, 9)
    assert read[1:] == [None] * 4
