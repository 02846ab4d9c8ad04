"""Which model is spoken to, and how: by what was said outright, then by the model's name, the address, the keys."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from ebbtide.config import Access, Settings
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.chat.local import MODEL
from ebbtide.fronts.chat.notebook import Begun
from ebbtide.fronts.chat.providers import Anthropic, Chat, Provider, Responses, anthropic_client, openai_client

PROVIDERS = ("anthropic", "openai", "responses")
_NAMES = {"anthropic": "anthropic", "openai_chat": "openai", "openai_responses": "responses"}
_DEFAULT = {"anthropic": "claude-sonnet-5", "openai": "gpt-5", "responses": "gpt-5"}

NO_KEY = """\
there is no model to talk to. One of these will do:
  export ANTHROPIC_API_KEY=...          then: ebb chat
  export OPENAI_API_KEY=...             then: ebb chat
  ebb chat --base-url URL --model NAME  for a server of your own: llama.cpp, Ollama, vLLM
  ebb chat --local                      a small model on this machine; no key, no network"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """How a model is reached."""

    name: str
    """One of `PROVIDERS`."""
    model: str
    url: str = ""
    local: bool = False


def choose(args: argparse.Namespace, settings: Settings, access: Access, begun: Begun | None) -> Door:
    """A session that is resumed goes on with its own model, unless another way was told."""
    told = args.provider or args.base_url or args.model
    if args.local or (begun is not None and begun.model == MODEL and not told):
        return Door(name="openai", model=MODEL, local=True)
    if begun is not None and not told:
        return Door(name=_NAMES[begun.wire], model=begun.model, url=begun.url)
    url = args.base_url or (begun.url if begun is not None and not args.provider else "")
    name = args.provider or (_NAMES[begun.wire] if begun is not None else _told(url, settings.model, access))
    return Door(name=name, model=settings.model or _served(name, url, access) or _DEFAULT[name], url=url)


def made(name: str, model: str, url: str, access: Access) -> Provider:
    if name == "anthropic":
        address = url or access.anthropic_url
        if not access.anthropic_key and not address:
            raise BadConfig(NO_KEY)
        return Anthropic(model=model, client=anthropic_client(access.anthropic_key or "none", address))
    address = url or access.openai_url
    if not access.openai_key and not address:
        raise BadConfig(NO_KEY)
    client = openai_client(access.openai_key, address)
    return Responses(model=model, client=client) if name == "responses" else Chat(model=model, client=client)


def _told(url: str, model: str, access: Access) -> str:
    if "claude" in model:
        return "anthropic"
    if url or model:
        return "openai"
    if access.anthropic_key or access.anthropic_url:
        return "anthropic"
    if access.openai_key or access.openai_url:
        return "openai"
    raise BadConfig(NO_KEY)


def _served(name: str, url: str, access: Access) -> str:
    """A server of one's own mostly serves one model: its name need not be told."""
    address = url or access.openai_url
    if name == "anthropic" or not address:
        return ""
    try:
        listed = openai_client(access.openai_key, address).with_options(timeout=10, max_retries=0).models.list()
        return next((one.id for one in listed), "")
    except Exception as failed:
        raise BadConfig(f"{address} does not tell its models; name one with --model") from failed
