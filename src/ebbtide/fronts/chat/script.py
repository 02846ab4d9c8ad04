"""`ebb chat -p`: one turn for a script. The answer is printed to stdout, all else to stderr. No question is asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict

from ebbtide.core.errors import EbbtideError
from ebbtide.display import one_line
from ebbtide.fronts.chat.error_messages import explain_error
from ebbtide.fronts.chat.events import ReplyEnd, ToolStart, TurnFailure, TurnInterrupt
from ebbtide.fronts.chat.permission import PermissionAnswer, PermissionQuestion
from ebbtide.fronts.chat.session import Chat
from ebbtide.fronts.chat.tools.bash import stop_all

_NO_USER = "there is no user to ask. Allow it with --allow TOOL or --yes"


def deny_permission(question: PermissionQuestion) -> PermissionAnswer:
    """Refuse what the options do not allow, and say on stderr which option would."""
    tool = question.action.tool
    subject = question.action.command or str(question.action.path)
    # A file that decides what git runs needs both permissions.
    tools = f"{tool},bash" if tool in question.rules.tools else tool
    print(f"ebb: not permitted ({question.reason}): {one_line(subject)}; --allow {tools}", file=sys.stderr)
    return PermissionAnswer(allowed=False, instruction=_NO_USER)


def run_script(chat: Chat, message: str, *, as_json: bool) -> int:
    old_edits = len(chat.agent.context.edits())
    try:
        answer, error = _run_turn(chat, message)
    finally:
        stop_all(chat.agent.state)
    if as_json:
        print(json.dumps(_summary(chat, answer, error, old_edits), ensure_ascii=False))
    elif error is None:
        print(answer)
    if error is None:
        return 0
    if isinstance(error, EbbtideError) or not isinstance(error, Exception):
        raise error
    print(f"ebb: {explain_error(error)}", file=sys.stderr)
    return 1


def _run_turn(chat: Chat, message: str) -> tuple[str, BaseException | None]:
    """Return the last reply and the error that ended the turn, if any."""
    answer = ""
    error: BaseException | None = None
    for event in chat.agent.run_turn(message):
        match event:
            case ToolStart(call=call) if sys.stderr.isatty():
                arguments = one_line(json.dumps(call.arguments, ensure_ascii=False), 100)
                print(f"  {call.name} {arguments}", file=sys.stderr)
            case ReplyEnd(reply=reply):
                answer = reply.text
                if reply.is_truncated:
                    print("ebb: the answer was cut off at the output limit", file=sys.stderr)
            case TurnFailure(error=failure):
                error = failure
            case TurnInterrupt():
                error = KeyboardInterrupt()
    return answer, error


def _summary(chat: Chat, answer: str, error: BaseException | None, old_edits: int) -> Mapping[str, object]:
    edits = chat.agent.context.edits()[old_edits:]
    return {
        "session": chat.session,
        "model": chat.setup.provider.model,
        "answer": answer,
        "error": explain_error(error) if isinstance(error, Exception) else None,
        "requests": len(chat.bill.calls),
        "usage": asdict(chat.bill.usage),
        "cost": chat.bill.dollars,
        "edits": [{"by": edit.by, "reason": edit.reason, "saved": edit.saved} for edit in edits],
    }
