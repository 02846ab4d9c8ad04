"""The presets by name. The names are fixed; an unknown one is refused with the list of known ones."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.core.errors import BadConfig
from ebbtide.policy.default import default
from ebbtide.policy.model import Policy

PRESETS: Mapping[str, Policy] = {policy.name: policy for policy in (default,)}


def preset(name: str | Policy) -> Policy:
    """A preset by its name; a policy of one's own is passed through."""
    if isinstance(name, Policy):
        return name
    if name not in PRESETS:
        raise BadConfig(f"no policy is called {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name]
