"""What providers answered to requests too large for them, word for word.

Where each was seen is in the table of `ebbtide.wire.overflow`, beside its wording.
"""

from __future__ import annotations

import json
from typing import Any

OPENAI = "This model's maximum context length is {} tokens. However, "
CALLED = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}


def openai(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **(more or CALLED)}}


def anthropic(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_011CV"}


Seen = tuple[str, int | None, Any, int | None, int | None]
"""Who said it, status, body, tokens used, limit."""

HOSTED: list[Seen] = [
    ("Anthropic", 400, anthropic("prompt is too long: 219898 tokens > 200000 maximum"), 219898, 200000),
    (
        "Anthropic, input and output",
        400,
        anthropic(
            "input length and `max_tokens` exceed context limit: 174167 + 64000 > 200000, decrease input length or "
            "`max_tokens` and try again"
        ),
        174167,
        200000,
    ),
    (
        "OpenAI",
        400,
        openai(OPENAI.format(128000) + "your messages resulted in 204308 tokens. Please reduce the length."),
        204308,
        128000,
    ),
    (
        "OpenAI, with functions",
        400,
        openai(
            OPENAI.format(8192) + "you requested 8213 tokens (6683 in the messages, 730 in the functions, and 800 in "
            "the completion). Please reduce the length of the messages, functions, or completion."
        ),
        7413,
        8192,
    ),
    (
        "OpenAI, completions",
        400,
        "This model's maximum context length is 4097 tokens, however you requested 6539 tokens (6283 in your prompt; "
        "256 for the completion). Please reduce your prompt; or completion length.",
        6283,
        4097,
    ),
    (
        "OpenAI Responses",
        400,
        openai("Your input exceeds the context window of this model. Please adjust your input and try again."),
        None,
        None,
    ),
    (
        "OpenAI Responses, in a stream",
        200,
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "context_length_exceeded", "message": "Too much."}},
        },
        None,
        None,
    ),
    (
        "Azure",
        400,
        openai(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 428548 tokens. "
            "Please reduce the length of the messages."
        ),
        428548,
        272000,
    ),
    (
        "DeepSeek",
        400,
        openai(
            OPENAI.format(131072) + "you requested 131134 tokens (122942 in the messages, 8192 in the completion). "
            "Please reduce the length of the messages or completion.",
            type="invalid_request_error",
            param=None,
            code="invalid_request_error",
        ),
        122942,
        131072,
    ),
    (
        "OpenRouter",
        400,
        openai(
            "This endpoint's maximum context length is 128000 tokens. However, you requested about 175410 tokens "
            "(174162 of text input, 1248 of tool input). Please reduce the length of either one.",
            code=400,
        ),
        175410,
        128000,
    ),
    (
        "OpenRouter, wrapping NVIDIA NIM",
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": json.dumps(
                        {"error": {"message": OPENAI.format(262144) + "your messages resulted in 262897 tokens."}}
                    ),
                    "provider_name": "Nvidia",
                },
            }
        },
        262897,
        262144,
    ),
    (
        "DeepInfra, inside a 502",
        502,
        {
            "message": 'ConnectionError: {"object": "error", "message": "' + OPENAI.format(16000) + "you requested "
            '17165 tokens (13069 in the messages, 4096 in the completion).", "code": 400}',
            "code": 502,
        },
        13069,
        16000,
    ),
    (
        "NVIDIA NIM",
        400,
        openai(
            "You passed 170753 input tokens and requested 32000 output tokens. However, the model's context length is "
            "only 202752 tokens, resulting in a maximum input length of 170752 tokens. Please reduce the length of the "
            "input prompt. (parameter=input_tokens, value=170753)",
            code=400,
        ),
        170753,
        202752,
    ),
    (
        "Together",
        400,
        "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
        516368,
        262144,
    ),
    (
        "Poolside",
        400,
        "Input length (265330) exceeds the maximum allowed input length of (262144) tokens.",
        265330,
        262144,
    ),
    (
        "Gemini",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        1200293,
        1048576,
    ),
    (
        "Gemini, without the count",
        400,
        openai("The input token count exceeds the maximum number of tokens allowed (1048576).", code=400),
        None,
        1048576,
    ),
    (
        "Vertex",
        400,
        "400 Unable to submit request because the input token count is 48261 but model only supports up to 32768. "
        "Reduce the input token count and try again. You can also use the CountTokens API",
        48261,
        32768,
    ),
    (
        "Mistral",
        400,
        {
            "object": "error",
            "message": "Prompt contains 1000172 tokens and 0 draft tokens, too large for model with 40960 maximum "
            "context length",
        },
        1000172,
        40960,
    ),
    (
        "Cohere",
        400,
        {
            "message": "too many tokens: size limit exceeded by 713295 tokens. Try using shorter or fewer inputs. The "
            "limit for this model is 288000 tokens."
        },
        1001295,
        288000,
    ),
    (
        "Cohere, earlier",
        400,
        {
            "message": "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received "
            "6354. Try using a shorter prompt or a smaller max_tokens value."
        },
        6354,
        2048,
    ),
    ("Groq", 400, openai("Please reduce the length of the messages or completion."), None, None),
    (
        "Cerebras",
        400,
        {
            "message": "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000"
        },
        42328,
        40000,
    ),
    (
        "Fireworks",
        400,
        openai("The prompt is too long: 1000008, model maximum context length: 131071", object="error"),
        1000008,
        131071,
    ),
    (
        "xAI",
        400,
        {
            "code": "INVALID_ARGUMENT",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
        537812,
        131072,
    ),
    (
        "GitHub Copilot",
        400,
        '{"error":{"message":"prompt token count of 93854 exceeds the limit of 90000","param":"","code":"","type":""}}',
        93854,
        90000,
    ),
    (
        "GitHub Models",
        413,
        {
            "error": {
                "code": "tokens_limit_reached",
                "message": "Request body too large for gpt-4o model. Max size: 8000 tokens.",
                "details": "Request body too large for gpt-4o model. Max size: 8000 tokens.",
            }
        },
        None,
        8000,
    ),
    (
        "Bedrock, Titan",
        400,
        {"message": "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9279 "},
        9279,
        8192,
    ),
    ("Bedrock, Claude", 400, {"message": "Input is too long for requested model."}, None, None),
    (
        "Bedrock, Nova",
        400,
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
        None,
        None,
    ),
    (
        "DashScope",
        400,
        openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]", code="x"),
        None,
        983616,
    ),
    (
        "Moonshot",
        400,
        openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"),
        291351,
        262144,
    ),
    ("Zhipu", 400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, None, None),
    ("MiniMax", 400, anthropic("invalid params, context window exceeds limit (2013)"), None, None),
    (
        "SiliconFlow",
        400,
        b'{"code":20015,"message":"number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.",'
        b'"data":null}',
        204703,
        202752,
    ),
    (
        "Volcengine",
        400,
        "Error code: 400 - {'error': {'code': 'InvalidParameter', 'message': 'Input length 203743 exceeds the maximum "
        "length 202752'}}",
        203743,
        202752,
    ),
    ("Doubao", 400, openai("Total tokens of image and text exceed max message tokens. Request id: 0217"), None, None),
    (
        "watsonx",
        400,
        {
            "errors": [
                {
                    "code": "invalid_input_argument",
                    "message": "Invalid input argument for Model 'meta-llama/llama-2-70b-chat': the number of input "
                    "tokens 4098 cannot exceed the total tokens limit 4096 for this model",
                }
            ],
            "status_code": 400,
        },
        4098,
        4096,
    ),
    (
        "Replicate",
        None,
        "ModelError: Your input is too long. Max input length is 4096 tokens, but you supplied 5441 tokens.",
        5441,
        4096,
    ),
    ("Salesforce", 400, "Request input tokens exceed model token limit. Reduce the input size.", None, None),
    (
        "LiteLLM",
        400,
        'litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException - b\'{"type":"error","error":'
        '{"type":"invalid_request_error","message":"prompt is too long: 207791 tokens > 200000 maximum"}}\'',
        207791,
        200000,
    ),
    ("LiteLLM, nothing kept", 400, "litellm.ContextWindowExceededError: bad request", None, None),
]
TERSE: list[tuple[Any, int | None, int | None]] = [
    # The same people, saying less: body, used, limit.
    ("Input tokens exceed the configured limit of 192000 tokens.", None, 192000),
    ("too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs.", None, None),
    ("too many tokens: total number of tokens in the prompt cannot exceed 4081", None, 4081),
    ("The prompt is too long: 380813", 380813, None),
    ("Prompt tokens (9000) exceeds context size (8192)", 9000, 8192),
    ("The number of tokens to keep from the initial prompt is greater than the context length", None, None),
    ("Your request exceeded model token limit: 128000", None, 128000),
    ({"error": {"type": "invalid_request", "message": "Prompt is too long"}}, None, None),
    ({"error": {"type": "exceed_context_size_error", "message": "no", "n_prompt_tokens": 9, "n_ctx": 8}}, 9, 8),
    ({"error": {"code": "model_context_window_exceeded"}}, None, None),
    ({"error": {"code": "tokens_limit_reached"}}, None, None),
]
