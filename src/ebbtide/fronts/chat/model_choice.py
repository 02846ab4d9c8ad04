"""Chooses the model and its provider: by option, then by the session, the model's name, the address and the keys."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

from ebbtide.config import Access, Settings
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.chat.chat_records import SessionStart
from ebbtide.fronts.chat.local import MODEL
from ebbtide.fronts.chat.providers import APIS, NO_KEY, openai_client

_PROVIDER_BY_WIRE = {api.wire: name for name, api in APIS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """A model and how to reach it."""

    provider: str
    """One of `APIS`."""
    model: str
    url: str = ""
    is_local: bool = False


def choose_endpoint(
    args: argparse.Namespace, settings: Settings, access: Access, start: SessionStart | None
) -> ModelEndpoint:
    """`start` is that of the session to resume, which keeps its model unless an option names another."""
    has_option = args.provider or args.base_url or args.model
    if args.local or (start is not None and start.model == MODEL and not has_option):
        return ModelEndpoint(provider="openai", model=MODEL, is_local=True)
    if start is not None and not has_option:
        return ModelEndpoint(provider=_PROVIDER_BY_WIRE[start.wire], model=start.model, url=start.url)
    url = args.base_url or (start.url if start is not None and not args.provider else "")
    session_provider = _PROVIDER_BY_WIRE[start.wire] if start is not None else ""
    provider = args.provider or session_provider or _guess_provider(url, settings.model, access)
    model = settings.model or _first_served_model(provider, url, access) or APIS[provider].default_model
    return ModelEndpoint(provider=provider, model=model, url=url)


def _guess_provider(url: str, model: str, access: Access) -> str:
    if "claude" in model:
        return "anthropic"
    if "gemini" in model and not url:
        return "gemini"
    if url or model:
        return "openai"
    for provider, account in access.accounts.items():
        if account.key or account.url:
            return provider
    raise BadConfig(NO_KEY)


def _first_served_model(provider: str, url: str, access: Access) -> str:
    """Ask the user's own server which model it serves: most serve one, so --model is not needed."""
    account = access.accounts["openai"]
    address = url or account.url
    if not APIS[provider].lists_models or not address:
        return ""
    try:
        models = openai_client(replace(account, url=address)).with_options(timeout=10, max_retries=0).models.list()
        return next((model.id for model in models), "")
    except Exception as error:
        raise BadConfig(f"{address} does not list its models; name one with --model") from error
