"""The presets by name. The names are fixed."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.core.errors import BadConfig
from ebbtide.policy.claude_code import claude_code
from ebbtide.policy.default import default, keep_more, spend_less
from ebbtide.policy.learn_v5 import learn_v5
from ebbtide.policy.mini_claude import mini_claude
from ebbtide.policy.model import Policy
from ebbtide.policy.opencode import opencode
from ebbtide.policy.region import region
from ebbtide.policy.sage import for_model, sage

_ALL = (default, claude_code, opencode, mini_claude, sage, region, learn_v5, keep_more, spend_less)

PRESETS: Mapping[str, Policy] = {policy.name: policy for policy in _ALL}

DIAL: Mapping[str, Policy] = {"keep-more": keep_more, "balanced": default, "spend-less": spend_less}
"""Our own policy at three points of the measured frontier. `balanced` is another name of `default`."""

POLICY_NAMES: tuple[str, ...] = tuple({**DIAL, **PRESETS})
"""All names that a policy can be chosen by, our own first."""

_OTHERS = [name for name in PRESETS if name not in DIAL and PRESETS[name] is not default]
POLICY_HELP = f"keep-more, balanced (default) or spend-less; or another agent's rules: {', '.join(_OTHERS)}"
"""What `--policy` takes, for the help of every command."""


def preset(name: str | Policy, *, model: str = "") -> Policy:
    """A preset by its name; your own policy is returned as it is. Only sage depends on the model (R011)."""
    if isinstance(name, Policy):
        return name
    known = {**DIAL, **PRESETS}
    if name not in known:
        raise BadConfig(f"no policy is called {name!r}; there are {', '.join(known)}")
    return for_model(model) if name == sage.name else known[name]
