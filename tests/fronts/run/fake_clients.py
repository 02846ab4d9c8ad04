"""Clients that find their address in the order of the real ones, and no more: where would the request go?

Each is written from what the real client does, and shares no code with `ebb run`.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path


def read_json(path: Path) -> dict:
    return json.loads(path.read_text()) if path.is_file() else {}


def read_toml(path: Path) -> dict:
    return tomllib.loads(path.read_text()) if path.is_file() else {}


def read_dotenv(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines() if path.is_file() else []
    return {name: value.strip("'\"") for name, _, value in (line.partition("=") for line in lines) if value}


def after(argv: list[str], *names: str) -> str:
    values = [argv[n + 1] for n, word in enumerate(argv[:-1]) if word in names]
    return values[-1] if values else ""


def claude(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    flag = after(argv, "--settings")
    files = [home / ".claude/settings.json", cwd / ".claude/settings.json", cwd / ".claude/settings.local.json"]
    layers = [*map(read_json, files), json.loads(flag) if flag.startswith("{") else read_json(cwd / (flag or "none"))]
    env = dict(environ)
    for layer in layers:
        env |= layer.get("env", {})
    if env.get("CLAUDE_CODE_USE_VERTEX") == "1":
        region = env.get("CLOUD_ML_REGION", "us-east5")
        base = env.get("ANTHROPIC_VERTEX_BASE_URL", f"https://{region}-aiplatform.googleapis.com/v1")
        return f"{base}/projects/p/locations/{region}/publishers/anthropic/models/m:streamRawPredict"
    if env.get("CLAUDE_CODE_USE_BEDROCK") == "1":
        return (
            env.get("ANTHROPIC_BEDROCK_BASE_URL", "https://bedrock-runtime.us-east-1.amazonaws.com") + "/model/m/invoke"
        )
    return env.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"


def codex(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    folder = Path(environ.get("CODEX_HOME", home / ".codex"))
    config = read_toml(folder / "config.toml")
    profile = after(argv, "-p", "--profile")
    config |= read_toml(folder / f"{profile}.config.toml") if profile else {}
    settings = [argv[n + 1] for n, word in enumerate(argv[:-1]) if word == "-c"]
    for setting in settings:
        key, _, value = setting.partition("=")
        place = config
        *tables, last = key.split(".")
        for name in tables:
            place = place.setdefault(name, {})
        place[last] = json.loads(value) if value.startswith('"') else value
    provider = config.get("model_provider", "openai")
    if provider != "openai":
        return config["model_providers"][provider]["base_url"] + "/responses"
    login = read_json(folder / "auth.json")
    usual = "https://chatgpt.com/backend-api/codex" if login.get("tokens") else "https://api.openai.com/v1"
    return config.get("openai_base_url", usual) + "/responses"


def opencode(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    provider = after(argv, "-m").partition("/")[0]
    base = {"anthropic": "https://api.anthropic.com/v1", "openai": "https://api.openai.com/v1"}.get(provider, "")
    files = [home / ".config/opencode/opencode.json", cwd / "opencode.json"]
    for layer in (*map(read_json, files), json.loads(environ.get("OPENCODE_CONFIG_CONTENT", "{}"))):
        base = layer.get("provider", {}).get(provider, {}).get("options", {}).get("baseURL", base)
    return base + ("/messages" if provider == "anthropic" else "/chat/completions")


def qwen(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    settings = read_json(home / ".qwen/settings.json")
    dotenv = next((read_dotenv(path) for path in (cwd / ".qwen/.env", cwd / ".env") if path.is_file()), {})
    env = {**settings.get("env", {}), **dotenv, **environ}
    base = env.get("OPENAI_BASE_URL") or settings.get("security", {}).get("auth", {}).get("baseUrl")
    return (base or "https://api.openai.com/v1") + "/chat/completions"


def gemini(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    dotenv = next((read_dotenv(path) for path in (cwd / ".gemini/.env", cwd / ".env") if path.is_file()), {})
    env = {**dotenv, **environ}
    base = env.get("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")
    return base + "/v1beta/models/m:generateContent"


def kimi(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    config = read_toml(home / ".kimi/config.toml")
    provider = config["providers"][config["models"][config["default_model"]]["provider"]]
    variable = "KIMI_BASE_URL" if provider["type"] == "kimi" else "OPENAI_BASE_URL"
    return environ.get(variable, provider["base_url"]) + "/chat/completions"


def vibe(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    config = read_toml(Path(environ.get("VIBE_HOME", home / ".vibe")) / "config.toml")
    rows = [{"name": "mistral", "api_base": "https://api.mistral.ai/v1"}, *config.get("providers", [])]
    providers = {row["name"]: row for row in [*rows, *json.loads(environ.get("VIBE_PROVIDERS", "[]"))]}
    active = config.get("active_model", "")
    models = {row.get("alias", row["name"]): row for row in config.get("models", [])}
    return providers[models.get(active, {}).get("provider", "mistral")]["api_base"] + "/chat/completions"


def litellm(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    base = environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_BASE") or "https://api.openai.com/v1"
    return base + "/chat/completions"


def aider(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    env = {**environ, **read_dotenv(cwd / ".env")}
    pairs = [argv[n + 1].partition("=") for n, word in enumerate(argv[:-1]) if word == "--set-env"]
    env |= {name: value for name, _, value in pairs}
    conf = cwd / ".aider.conf.yml"
    rows = dict(line.split(": ", 1) for line in conf.read_text().splitlines()) if conf.is_file() else {}
    address = after(argv, "--openai-api-base") or rows.get("openai-api-base", "")
    return litellm({**env, **({"OPENAI_API_BASE": address} if address else {})}, argv, home, cwd)


def sdk(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    """OpenAI's SDK, in a program that loads `.env` first."""
    env = {**read_dotenv(cwd / ".env"), **environ}
    return env.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"


def old_sdk(environ: dict[str, str], argv: list[str], home: Path, cwd: Path) -> str:
    """OpenAI's SDK before version 1."""
    return environ.get("OPENAI_API_BASE", "https://api.openai.com/v1") + "/chat/completions"


BY_COMMAND = {
    name: globals()[name] for name in ("claude", "codex", "opencode", "qwen", "gemini", "kimi", "vibe", "aider")
}
