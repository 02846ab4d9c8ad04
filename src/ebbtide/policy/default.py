"""Our own policy. Its numbers are provisional until they are searched for by replay."""

from __future__ import annotations

from ebbtide.policy.levels import at_least_half, shares
from ebbtide.policy.model import Policy

default = Policy(
    name="default",
    # Act at 80 %: a reply and a large result must still fit. Down to 50 %: acting is rare, and the prefix stays cached.
    levels=shares(warning=0.60, soft=0.65, auto=0.80, hard=0.95, low=0.50),
    usable=lambda window, output: at_least_half(window, window - output),
)
