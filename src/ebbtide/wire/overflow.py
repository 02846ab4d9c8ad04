"""Recognize a provider's error for a request that is too large, and read the numbers in it.

A row of the table needs a message that was seen, and where. Rows match exact wordings: "too long" alone is also said of
ids (C4), "too many tokens" also of a rate, and compaction helps against neither. Only fields that hold the error's own
text are read, because servers echo the request they refuse, and a conversation may be about this very error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

Unit = Literal["tokens", "bytes", "characters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """A request was refused for its size."""

    used: int | None
    """Input tokens, as the provider counted them."""
    limit: int | None
    """The window, or the largest input if the provider states that separately."""
    provider: str
    """Whose wording it is; compatible servers borrow it."""
    output: int | None = None
    """Output tokens asked for, if they counted against the limit too."""
    over: int | None = None
    """By how much the limit was exceeded, if stated or computable."""
    unit: Unit = "tokens"
    """Unit of all numbers. Only tokens say anything about the window."""


_MAX_CHARACTERS = 16_000
"""Characters of an error that are read. The longest seen has 2,000; a longer one echoes the request."""
_MAX_DEPTH = 6
"""Of errors in errors: a gateway that wraps a gateway is three."""

# `<used>`, `<limit>`, `<output>`, `<over>` and `<total>` (input and output) stand for numbers; blanks are single.
# A row that tells more comes before one that tells less, and the bare codes come last. Each says where it was seen;
# owner/name#number is a GitHub thread, PI the examples in packages/ai/src/utils/overflow.ts of the agent pi (public
# copy: zhy0216/pigo), LIST a public test that lists what providers answered to it.
_TABLE: tuple[tuple[str, str], ...] = (
    # validity.md A59; stackblitz/bolt.new#1339. Also Anthropic on Vertex, Bedrock and Foundry.
    ("anthropic", r"prompt is too long: <used> tokens > <limit> maximum"),
    # validity.md A60; kortix-ai/suna#172
    ("anthropic", r"input length and `?max_tokens`? exceed context limit: <used> \+ <output> > <limit>"),
    # vllm-project/vllm#20409 and its successors. NVIDIA NIM the same: Kilo-Org/kilocode#8698
    ("vllm", r"you passed <used> input tokens and requested <output> output tokens.{0,20}model's context length is"
             r" only <limit> tokens"),
    ("vllm", r"context length is <limit> tokens\. however, you requested <output> output tokens and your prompt"
             r" contains (?:at least )?<used> input tokens"),
    ("vllm", r"max_(?:completion_)?tokens'? is too large: <output>\. this model's maximum context length is <limit>"
             r" tokens and your request has <used> input tokens"),
    ("vllm", r"context length is <limit> tokens\. however, your request has <used> input tokens"),
    ("vllm", r"prompt \(?(?:length|length of) <used>\)? is longer than the maximum model length of <limit>"),
    # validity.md C11; llama-cpp-python: dependencies.md 1. Azure: Azure/azure-sdk-for-net#41892. DeepSeek:
    # evalstate/fast-agent#621. DeepInfra: ai-christianson/RA.Aid#41. OpenRouter says "This endpoint's": PI.
    ("openai", r"maximum context length is <limit> tokens[.,]? however,? you requested (?:about )?<total> ?tokens"
               r" \([^)]{0,200}?<output> (?:in|for) the (?:completion|output)\)"),
    ("openai", r"maximum context length is <limit> tokens[.,]? however,? you requested (?:about )?<used> ?tokens"),
    ("openai", r"maximum context length is <limit> tokens[.,]? however,? your (?:messages|prompt|input) resulted in"
               r" <used> tokens"),
    # BerriAI/litellm exception_mapping_utils.py, named in validity.md C11; GPT-5 on OpenAI and Azure
    ("openai", r"input tokens exceed the configured limit of <limit> tokens\. your messages resulted in <used> tokens"),
    ("openai", r"input tokens exceed the configured limit of <limit>"),
    # anomalyco/opencode#25230; sgl-project/sglang#8096 and #4048. Together says the second: QwenLM/Qwen3#1321
    ("sglang", r"maximum context length of <limit> tokens\. you requested a total of \d+ tokens: <used> tokens from"
               r" the input messages and <output> tokens for the completion"),
    ("sglang", r"the input \(<used> tokens\) is longer than the model's context length \(<limit> tokens\)"),
    ("sglang", r"input length \(<used> tokens\) exceeds the maximum allowed length \(<limit> tokens\)"),
    # By way of OpenRouter: PI
    ("poolside", r"input length \(?<used>\)? exceeds the maximum allowed input length of \(?<limit>\)? tokens"),
    # validity.md G10; google-gemini/gemini-cli#6678. Without the count: arkavo-org/arkavo-edge#371
    ("gemini", r"input token count \(<used>\) exceeds the maximum number of tokens allowed \(<limit>\)"),
    ("gemini", r"input token count exceeds the maximum number of tokens allowed \(<limit>\)"),
    # google.api_core InvalidArgument, in the tests of several public clients
    ("vertex", r"input token count is <used> but (?:the )?model (?:only )?supports up to <limit>"),
    # LIST; docs.mistral.ai/resources/known-limitations
    ("mistral", r"prompt contains <used> tokens.{0,40}? too large for model with <limit> maximum context length"),
    # LIST, docs.cohere.com on errors, cohere-ai/sandbox-topically#4
    ("cohere", r"too many tokens: size limit exceeded by <over> tokens.{0,80}?limit for this model is <limit> tokens"),
    ("cohere", r"too many tokens: size limit exceeded by <over> tokens"),
    ("cohere", r"total number of tokens .{0,30}?cannot exceed <limit> - received <used>"),
    ("cohere", r"too many tokens: total number of tokens in the prompt cannot exceed <limit>"),
    # validity.md C11; cline/cline#5140
    ("cerebras", r"current length is <used> while limit is <limit>"),
    # web-infra-dev/midscene#315. Hugging Face endpoints and Together are TGI's too.
    ("tgi", r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= ?<limit>\. given: <used> `?inputs`? tokens and"
            r" <output>"),
    ("tgi", r"`?inputs`? must have less than <limit> tokens\. given: <used>"),
    # LIST; its limit of 2**n - 1 as in ogx-ai/ogx#697. Ollama's cloud models say it as well.
    ("fireworks", r"the prompt is too long: <used>, model maximum context length: <limit>"),
    ("fireworks", r"the prompt is too long: <used>\b(?! tokens)"),
    # PI
    ("xai", r"maximum prompt length is <limit> but (?:the )?request contains <used> tokens"),
    # dependencies.md 1b, measured. Earlier, without numbers: charmbracelet/crush#824
    ("llama.cpp", r"request \(<used> tokens\) exceeds the available context size \(<limit> tokens\)"),
    ("llama.cpp", r"exceeds the available context size"),
    # antirez/ds4#150
    ("ds4", r"prompt tokens \(<used>\) exceeds context size \(<limit>\)"),
    ("ds4", r"prompt has <used> tokens?, but the configured context size is <limit> tokens?"),
    # tinyhumansai/openhuman#3550, anomalyco/opencode#11141, lmstudio-ai/lmstudio-bug-tracker#546. May come with 200.
    ("lm studio", r"n_keep:? \(?<used>\)? >= n_ctx:? \(?<limit>\)?"),
    ("lm studio", r"keep the first <used> tokens when .{0,30}?overflows\..{0,60}?length of only <limit> tokens"),
    ("lm studio", r"tokens to keep from the initial prompt is greater than the context length"),
    # PI; the second also with 500 or 413
    ("ollama", r"prompt too long; exceeded (?:max )?context length by <over> tokens"),
    ("ollama", r"the input length exceeds the context length"),
    # jjleng/copilot-more#35
    ("github copilot", r"prompt token count of <used> exceeds the limit of <limit>"),
    # cline/cline#2115, eslint/tsc-meetings#593
    ("github models", r"request body too large for .{1,80}? model\. max size: <limit> tokens"),
    # Titan: pkdone/paul-genai-test-tools-ts. Claude: aws-samples/bedrock-chat#95. The third is Nova's: LIST.
    ("bedrock", r"too many input tokens\. max input tokens: <limit>, request input token count: <used>"),
    ("bedrock", r"input is too long for requested model"),
    ("bedrock", r"number of input tokens exceeds maximum length"),
    # QwenLM/qwen-code#98
    ("dashscope", r"range of input length should be \[\d+, ?<limit>\]"),
    # PI: Kimi for coding
    ("moonshot", r"exceeded model token limit: <limit> \(requested: <used>\)"),
    ("moonshot", r"exceeded model token limit: <limit>"),
    # zeroclaw-labs/zeroclaw#4124: code 1261
    ("zhipu", r"prompt exceeds max length"),
    # MiniMax-AI/MiniMax-M2#119. The number after it, 2013, is the code of all bad parameters, and no length.
    ("minimax", r"context window exceeds limit"),
    # leookun/cursor-byok#129
    ("siliconflow", r"number of input tokens \(<used>\) has exceeded max_(?:prompt_tokens|seq_len) \(<limit>\)"),
    # langgenius/dify#32221. The second is Doubao's own: in the tests of several public agents.
    ("volcengine", r"input length <used> exceeds the maximum length <limit>"),
    ("volcengine", r"total tokens of image and text exceed max message tokens"),
    # IBM: cloud.ibm.com/apidocs/watsonx-ai, code invalid_input_argument
    ("watsonx", r"number of input tokens <used> cannot exceed the total tokens limit <limit>"),
    # run-llama/llama_index#7974
    ("replicate", r"max input length is <limit> tokens, but you supplied <used> tokens"),
    # replicate/replicate-python#264
    ("tensorrt-llm", r"prompt length \(<used>\) exceeds maximum input length \(<limit>\)"),
    # forcedotcom/Einstein-GPT-for-Developers#228
    ("salesforce", r"request input tokens exceed model token limit"),
    # validity.md R14; also inside a stream, as response.failed
    ("openai", r"input exceeds the context window of this model"),
    # OpenHands/OpenHands#1902
    ("groq", r"please reduce the length of the messages or completion"),
    # LiteLLM's name for all of them, where it kept nothing else
    ("litellm", r"contextwindowexceedederror"),
    ("anthropic", r"\bprompt is too long\b(?!,)"),
    ("llama.cpp", r"\bexceed_context_size_error\b"),
    ("zhipu", r"\bmodel_context_window_exceeded\b"),
    ("github models", r"\btokens_limit_reached\b"),
    ("openai", r"\bcontext_length_exceeded\b"),
)  # fmt: skip

_OTHER_UNITS: tuple[tuple[str, Unit, str], ...] = (
    # LIST: whoever is behind gRPC
    ("grpc", "bytes", r"message larger than max \(<used> vs\. <limit>\)"),
    # strands-agents/sdk-python, its Bedrock provider
    ("bedrock", "bytes", r"too many total text bytes"),
    # aws-samples/bedrock-access-gateway#41
    ("bedrock", "characters", r"expected maxlength: <limit>, actual: <used>"),
    # validity.md A12
    ("anthropic", "bytes", r"\brequest_too_large\b"),
)

_NOT_A_SIZE = re.compile(
    r"tokens? per (?:min|day|hour)|\bt[pk]m\b|rate[_ -]?limit|\bquota\b|too many requests|throttl|please wait", re.I
)
"""A limit per time, not per request. Groq answers 413 with it, and OpenAI "Request too large"."""
_NEVER = frozenset({401, 402, 403, 404, 429})


@cache
def compile_wording(wording: str) -> re.Pattern[str]:
    """Compile a wording when an error is read: most sessions see none, and compiling all takes 10 ms."""
    return re.compile(re.sub(r"(?<!\?P)<(\w+)>", r"(?P<\1>\\d[\\d,]{0,14})", wording), re.IGNORECASE)


ROWS: tuple[tuple[str, Unit, str], ...] = (
    *((provider, "tokens", wording) for provider, wording in _TABLE),
    *_OTHER_UNITS,
)
PROVIDERS = frozenset(provider for provider, _, _ in ROWS)


def find_overflow(status: int | None, body: Mapping[str, Any] | str | bytes) -> Overflow | None:
    """Read what an error says about the request's size; None if it is about something else.

    A 413 without a known wording counts as too many bytes: some servers say no more than that.
    """
    words = " ".join(" ".join(_find_texts(_parse(body), _MAX_DEPTH)).split())[:_MAX_CHARACTERS]
    if status in _NEVER or _NOT_A_SIZE.search(words):
        return None
    if status is not None and 200 <= status < 300 and not _is_error(body):
        return None
    for provider, unit, wording in ROWS:
        if match := compile_wording(wording).search(words):
            return _read_numbers(provider, unit, match, _read_fields(body))
    return Overflow(used=None, limit=None, provider="http", unit="bytes") if status == 413 else None


_BAD_REQUEST = 400
_SIGNATURES = re.compile(r"\bcorrupted thought signature\b|\bthought signature is not valid\b", re.I)
"""google-gemini/gemini-cli#13467, after a change of the account; RooCodeInc/Roo-Code#10554, after a pause."""
_CACHE_FIELDS = re.compile(r"\bttl\b|\bprompt_cache_(?:key|retention)\b")
"""How providers and gateways name the fields, as in `cache_control.ttl: Extra inputs are not permitted`."""


def find_overflow_in_error(error: BaseException) -> Overflow | None:
    """Read the same from an exception of an SDK or an HTTP client, or one that wraps it.

    Uses the attribute names that SDKs share, without importing one.
    """
    return next((overflow for status, text in _texts(error) if (overflow := find_overflow(status, text))), None)


def refuses_cache_fields(error: BaseException) -> bool:
    """Whether a provider, or a gateway before it, refused the lifetime of a cache breakpoint or a cache key."""
    return _is_refusal_of(_CACHE_FIELDS, error)


def refuses_signatures(error: BaseException) -> bool:
    """Whether Gemini refused signatures that it did not write: they are of another host, account or project (G6)."""
    return _is_refusal_of(_SIGNATURES, error)


def _is_refusal_of(words: re.Pattern[str], error: BaseException) -> bool:
    texts = ((status, text if isinstance(text, str) else str(text)) for status, text in _texts(error))
    return any(status == _BAD_REQUEST and words.search(text) for status, text in texts)


def _texts(error: BaseException) -> Iterator[tuple[int | None, Mapping[str, Any] | str | bytes]]:
    """Status and texts of an error and of what it wraps."""
    visited: set[int] = set()
    exception: BaseException | None = error
    while exception is not None and id(exception) not in visited:
        visited.add(id(exception))
        response = getattr(exception, "response", None)
        status = _status(exception, response)
        for text in (
            getattr(exception, "body", None),
            _text_of(response),
            getattr(exception, "message", None),
            str(exception),
        ):
            if isinstance(text, Mapping | str | bytes) and text:
                yield status, text
        exception = exception.__cause__ or exception.__context__


def _status(error: BaseException, response: Any) -> int | None:
    for holder in (error, response):
        for name in ("status_code", "status", "http_status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return None


def _text_of(response: Any) -> Any:
    """Return the body of an HTTP response that was read, or botocore's parsed response."""
    if isinstance(response, Mapping):
        return response
    try:
        return getattr(response, "text", None)
    except RuntimeError:  # httpx and requests, of a response that was streamed and never read.
        return None


def _read_numbers(provider: str, unit: Unit, match: re.Match[str], counted: Mapping[str, int]) -> Overflow:
    numbers = {name: int(value.replace(",", "")) for name, value in match.groupdict().items() if value is not None}
    numbers = {**counted, **numbers} if unit == "tokens" else numbers
    used, limit, output, over = (numbers.get(name) for name in ("used", "limit", "output", "over"))
    if used is None and "total" in numbers:
        used = numbers["total"] - (output or 0)
    if used is None and limit is not None and over is not None:
        used = limit + over
    if over is None and used is not None and limit is not None:
        over = max(0, used + (output or 0) - limit)
    return Overflow(used=used, limit=limit, provider=provider, output=output, over=over, unit=unit)


_TEXT_FIELDS = frozenset(
    {
        *("error", "errors", "message", "msg", "detail", "details", "reason", "cause", "title"),
        *("code", "type", "error_type", "error_message", "errormessage", "__type", "name", "internal_code"),
        *("metadata", "raw", "response", "body"),
    }
)
"""Fields that hold an error's own text; `input`, `messages`, `choices` and the like hold the conversation."""


def _find_texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        parsed = _parse(value)
        if parsed is value or depth <= 0:
            yield value
        else:
            yield from _find_texts(parsed, depth - 1)
    elif isinstance(value, Mapping) and depth > 0:
        for name, part in value.items():
            if str(name).lower() in _TEXT_FIELDS:
                yield from _find_texts(part, depth - 1)
    elif isinstance(value, list) and depth > 0:
        for part in value[:20]:
            yield from _find_texts(part, depth - 1)


def _parse(value: Mapping[str, Any] | str | bytes) -> Any:
    """Parse a body if it is JSON, and return its text if not."""
    if isinstance(value, bytes | bytearray):
        value = bytes(value).decode("utf-8", "replace")
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _is_error(body: Mapping[str, Any] | str | bytes) -> bool:
    """LM Studio and TGI answer 200 with an error inside; a reply that only mentions one is no error."""
    parsed = _parse(body)
    if not isinstance(parsed, Mapping):
        return False
    response = parsed.get("response") if str(parsed.get("type", "")).startswith("response.") else parsed
    return isinstance(response, Mapping) and any(response.get(name) for name in ("error", "errors"))


def _read_fields(body: Mapping[str, Any] | str | bytes) -> dict[str, int]:
    """llama.cpp and ds4 also give the numbers in fields."""
    parsed = _parse(body)
    error = parsed.get("error") if isinstance(parsed, Mapping) else None
    error_fields = error if isinstance(error, Mapping) else parsed if isinstance(parsed, Mapping) else {}
    fields = {"used": error_fields.get("n_prompt_tokens"), "limit": error_fields.get("n_ctx")}
    return {name: value for name, value in fields.items() if isinstance(value, int) and not isinstance(value, bool)}
