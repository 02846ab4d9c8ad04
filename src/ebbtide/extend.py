"""Everything you need to extend Ebbtide with a pass, a policy, a wire or a store of your own.

- **A pass** is a function of a `View` and a `PlanInput` that yields `Edit` values. `Offloader` builds them for you,
  `can_offload` says which entries you may take, and the `find_*` functions say where a view may be cut.
- **A policy** is a `Policy`: passes, `Thresholds` and an `Estimator`. `when` runs a pass only under a condition.
- **A wire** is a `Wire`: one module for each of its facets, which the protocols below describe.
- **An adapter** that keeps objects of its own finds them again by `Ready.origins()`, which returns `Origin` values.
- **A store** satisfies `Store`, and its sessions satisfy `Log`.

`docs/how-to/write-a-pass.md` shows a whole pass, `docs/how-to/write-a-wire.md` the way to a wire. Names that are not
listed here may change without notice.
"""

from __future__ import annotations

from ebbtide.core.edit_rules import (
    covered_range,
    find_cuts,
    find_loop_start,
    find_turn_starts,
    is_protected,
    rejection_reason,
)
from ebbtide.core.offload import Offloader, can_offload, newest_turns, original_of
from ebbtide.core.planner import Budget, Pass, PlanInput, Thresholds
from ebbtide.core.stub import Stub, Template, parse, render
from ebbtide.core.tokens.counters import StreamingCounter, TokenCounter
from ebbtide.core.tokens.estimator import Estimator
from ebbtide.core.tool_calls import call_arguments, file_path, is_failed_result, is_read_call, tool_name
from ebbtide.core.types import Answer, Edit, Item, Question, Usage
from ebbtide.core.view import View
from ebbtide.passes.when import Condition, above, all_of, any_of, at_level, cold, end_of_loop, idle_for, when
from ebbtide.policy.model import Policy
from ebbtide.store.log_lines import Damage, LogSink, Position, ReadResult
from ebbtide.store.protocol import (
    BlobInfo,
    GcResult,
    LockLost,
    Log,
    LogReader,
    LogReplaced,
    SessionInfo,
    Store,
    VerifyResult,
)
from ebbtide.wire.boundary import (
    create_compact_boundary,
    find_last_compact_boundary_index,
    is_compact_boundary,
    slice_from_last_compact_boundary,
)
from ebbtide.wire.client_history import ClientHistory
from ebbtide.wire.origins import Origin
from ebbtide.wire.protocol import (
    CacheBreakpoints,
    MessageFormat,
    ReplyFormat,
    SideRequests,
    TurnFormat,
    ValidityRules,
    Wire,
)

__all__ = [
    "Answer", "BlobInfo", "Budget", "CacheBreakpoints", "ClientHistory", "Condition", "Damage", "Edit", "Estimator",
    "GcResult", "Item", "LockLost", "Log", "LogReader", "LogReplaced", "LogSink", "MessageFormat", "Offloader",
    "Origin", "Pass", "PlanInput", "Policy", "Position", "Question", "ReadResult", "ReplyFormat", "SessionInfo",
    "SideRequests", "Store", "StreamingCounter", "Stub", "Template", "Thresholds", "TokenCounter", "TurnFormat",
    "Usage", "ValidityRules", "VerifyResult", "View", "Wire", "above", "all_of", "any_of", "at_level",
    "call_arguments", "can_offload", "cold", "covered_range", "create_compact_boundary", "end_of_loop", "file_path",
    "find_cuts", "find_last_compact_boundary_index", "find_loop_start", "find_turn_starts", "idle_for",
    "is_compact_boundary", "is_failed_result", "is_protected", "is_read_call", "newest_turns", "original_of",
    "parse", "rejection_reason", "render", "slice_from_last_compact_boundary", "tool_name", "when",
]  # fmt: skip
