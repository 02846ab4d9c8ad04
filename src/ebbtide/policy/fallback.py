"""When a request must come down and no summary is there to do it: the oldest exchanges leave, with a note (D17).

No seed has this step. Without it a preset whose summary failed would send what no provider takes.
"""

from __future__ import annotations

from functools import partial

from ebbtide.core.planner import Pass
from ebbtide.core.stub import Template, render
from ebbtide.passes import clear_results, evict
from ebbtide.policy.combine import SHORTENING_PASSES, OnOriginals


def evict_oldest(stub: Template = render) -> tuple[Pass, ...]:
    """Down to the newest messages, then results and what is left of them, then all but the last message.

    The user's words stay.
    """
    return (
        partial(evict, stub=stub),
        OnOriginals(SHORTENING_PASSES, partial(clear_results, keep_results=0)),
        partial(evict, keep=1, stub=stub),
    )
