"""Keeps the sessions of several users of one proxy apart, by the credential that their requests carry.

A tenant's name is a hash, from which the credential cannot be recovered. The proxy stores each tenant's sessions under
a separate project; to read them elsewhere you need the credential.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

PROJECT_PREFIX = "proxy-"


def tenant_name(credentials: Iterable[tuple[str, str]]) -> str:
    """Name the owner of credentials, which are pairs of header and value: 48 bits of their hash."""
    text = "\0".join(f"{name}:{value}" for name, value in credentials)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=b"ebbtide-proxy").hexdigest()[:12]


def tenant_project(tenant: str) -> str:
    return f"{PROJECT_PREFIX}{tenant}"


def is_tenant_project(project: str) -> bool:
    """Whether the proxy uses the project for a tenant."""
    return project.startswith(PROJECT_PREFIX)


def tenant_of(project: str) -> str:
    """The tenant whose sessions the proxy stores under this project; empty for any other project."""
    return project.removeprefix(PROJECT_PREFIX) if is_tenant_project(project) else ""
