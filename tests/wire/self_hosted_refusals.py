"""What servers that one runs oneself answered to requests too large for them, word for word.

Where each was seen is in the table of `ebbtide.wire.overflow`, beside its wording.
"""

from __future__ import annotations

from wire.refusals import OPENAI, Seen, openai

SERVED: list[Seen] = [
    (
        "vLLM",
        400,
        {
            "object": "error",
            "message": OPENAI.format(16384) + "you requested 19591 tokens (9591 in the messages, 10000 in the "
            "completion). Please reduce the length of the messages or completion. None",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        9591,
        16384,
    ),
    (
        "vLLM, later",
        400,
        openai(
            OPENAI.format(262144) + "you requested 8 output tokens and your prompt contains at least 262137 input "
            "tokens, for a total of at least 262145 tokens."
        ),
        262137,
        262144,
    ),
    (
        "vLLM, no room for the answer",
        400,
        openai(
            "'max_tokens' or 'max_completion_tokens' is too large: 43148. This model's maximum context length is "
            "65536 tokens and your request has 24632 input tokens (43148 > 65536 - 24632). None"
        ),
        24632,
        65536,
    ),
    (
        "vLLM, input alone",
        400,
        openai(OPENAI.format(262144) + "your request has 1000010 input tokens. Please reduce the length."),
        1000010,
        262144,
    ),
    (
        "vLLM, engine",
        None,
        "ValueError: The decoder prompt (length 8867) is longer than the\nmaximum model length of 8192.",
        8867,
        8192,
    ),
    (
        "SGLang",
        400,
        "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of "
        "202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion. Please reduce the "
        "number of tokens in the input messages or the completion to fit within the limit.",
        170941,
        202752,
    ),
    (
        "SGLang, input alone",
        400,
        {
            "object": "error",
            "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
            "type": "BadRequestError",
        },
        61709,
        40960,
    ),
    (
        "SGLang, memory",
        400,
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
        160062,
        59862,
    ),
    (
        "Hugging Face TGI",
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32768. Given: 82004 "
            "`inputs` tokens and 2048 `max_new_tokens`",
            "error_type": "validation",
        },
        82004,
        32768,
    ),
    (
        "Hugging Face TGI, input alone, with 200",
        200,
        {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"},
        5000,
        4096,
    ),
    (
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 4031,
                "n_ctx": 2048,
            }
        },
        4031,
        2048,
    ),
    (
        "llama.cpp, numbers beside the words",
        400,
        {
            "error": {
                "message": "the request exceeds the available context size. try increasing the context size or enable "
                "context shift",
                "n_prompt_tokens": 167416,
                "n_ctx": 131072,
            }
        },
        167416,
        131072,
    ),
    (
        "llama-cpp-python",
        400,
        openai(
            OPENAI.format(2048) + "you requested 4061 tokens (4031 in the messages, 30 in the completion). Please "
            "reduce the length of the messages or completion."
        ),
        4031,
        2048,
    ),
    (
        "ds4",
        400,
        {"error": {"message": "Prompt has 300,000 tokens, but the configured context size is 131,072 tokens"}},
        300000,
        131072,
    ),
    ("Ollama", 400, {"error": "prompt too long; exceeded max context length by 65590 tokens (ref: 1b2)"}, None, None),
    ("Ollama, runner", 500, '{"error":"the input length exceeds the context length"}', None, None),
    (
        "LM Studio",
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: "
            "10247 >= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter prompt."
        },
        10247,
        4096,
    ),
    (
        "LM Studio, with 200",
        200,
        {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"},
        15028,
        7424,
    ),
    (
        "LM Studio, earlier",
        400,
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context "
        "length of only 32768 tokens, which is not enough. Try to load the model with a larger context length",
        111490,
        32768,
    ),
    (
        "TensorRT-LLM",
        None,
        "Cannot process new request: Prompt length (1240) exceeds maximum input length (1024). (GptManager.cpp:246)",
        1240,
        1024,
    ),
]
