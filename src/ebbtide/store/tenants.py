"""Whose sessions are whose, where several people use one proxy: by the credential that their requests carry.

A tenant is named by a hash, which does not tell the credential. The proxy keeps each tenant's sessions under a project
of its own; whoever wants to read them from elsewhere has to have the credential.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

CREDENTIAL_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_PREFIX = "proxy-"


def tenant_of(headers: Mapping[str, str]) -> str:
    """A name for the credentials of a request: 48 bits of a hash of something that nobody can guess."""
    parts = "\0".join(f"{name}:{headers[name]}" for name in CREDENTIAL_HEADERS if name in headers)
    return blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16, person=b"ebbtide-proxy").hexdigest()[:12]


def tenants_of_credential(credential: str) -> frozenset[str]:
    """The tenants that one credential may be, in whichever header a client sends it."""
    ways = [{name: credential} for name in CREDENTIAL_HEADERS]
    return frozenset(map(tenant_of, [*ways, {"authorization": f"Bearer {credential}"}]))


def project_of_tenant(tenant: str) -> str:
    return f"{_PREFIX}{tenant}"


def is_of_tenant(project: str) -> bool:
    """Whether a project is one that the proxy keeps for a tenant."""
    return project.startswith(_PREFIX)
