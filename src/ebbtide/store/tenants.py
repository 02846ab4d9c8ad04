"""Whose sessions are whose, where several people use one proxy: by the credential that their requests carry.

A tenant is named by a hash, which does not tell the credential. The proxy keeps each tenant's sessions under a project
of its own; whoever wants to read them from elsewhere has to have the credential.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

PROJECT_PREFIX = "proxy-"
"""What the project of every session of the proxy begins with."""


def tenant_name(credentials: Iterable[tuple[str, str]]) -> str:
    """A name for credentials, each with the header it came in: 48 bits of a hash of something that nobody can guess."""
    text = "\0".join(f"{name}:{value}" for name, value in credentials)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=b"ebbtide-proxy").hexdigest()[:12]


def tenant_project(tenant: str) -> str:
    return f"{PROJECT_PREFIX}{tenant}"


def is_tenant_project(project: str) -> bool:
    """Whether a project is one that the proxy keeps for a tenant."""
    return project.startswith(PROJECT_PREFIX)
