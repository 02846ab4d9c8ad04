"""The presets by name. The names are fixed."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.core.errors import BadConfig
from ebbtide.policy.claude_code import claude_code
from ebbtide.policy.default import default
from ebbtide.policy.learn_v5 import learn_v5
from ebbtide.policy.mini_claude import mini_claude
from ebbtide.policy.model import Policy
from ebbtide.policy.opencode import opencode
from ebbtide.policy.region import region
from ebbtide.policy.sage import for_model, sage

_ALL = (default, claude_code, opencode, mini_claude, sage, region, learn_v5)

PRESETS: Mapping[str, Policy] = {policy.name: policy for policy in _ALL}


def preset(name: str | Policy, *, model: str = "") -> Policy:
    """A preset by its name; your own policy is returned as it is. Only sage depends on the model (R011)."""
    if isinstance(name, Policy):
        return name
    if name not in PRESETS:
        raise BadConfig(f"no policy is called {name!r}; there are {', '.join(PRESETS)}")
    return for_model(model) if name == sage.name else PRESETS[name]
