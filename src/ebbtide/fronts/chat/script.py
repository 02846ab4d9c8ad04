"""`ebb chat -p`: one request for a script. The answer goes to stdout, all else to stderr, and nobody is asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from ebbtide.core.errors import EbbtideError
from ebbtide.fronts.chat.error_messages import told
from ebbtide.fronts.chat.events import Answered, Calling, Failed, Stopped
from ebbtide.fronts.chat.permission import Question, Verdict
from ebbtide.fronts.chat.session import Chat
from ebbtide.fronts.chat.tools.bash import stop_all

_REFUSED = "nobody is there to ask. Allow it with --allow TOOL or --yes"


def nobody(question: Question) -> Verdict:
    """In a script what was not allowed beforehand is refused."""
    tool = question.need.tool
    what = question.need.command or str(question.need.path)
    # A file that decides what git runs needs leave for both.
    wanted = f"{tool},bash" if tool in question.rules.tools else tool
    print(f"ebb: not permitted ({question.reason}): {_flat(what)}; --allow {wanted}", file=sys.stderr)
    return Verdict(allowed=False, words=_REFUSED)


def run_script(chat: Chat, words: str, *, as_json: bool) -> int:
    known = len(chat.agent.context.edits())
    try:
        answer, error = _worked(chat, words)
    finally:
        stop_all(chat.agent.desk)
    if as_json:
        print(json.dumps(_summary(chat, answer, error, known), ensure_ascii=False))
    elif error is None:
        print(answer)
    return _code(error)


def _worked(chat: Chat, words: str) -> tuple[str, BaseException | None]:
    """The last words, and what went wrong."""
    answer = ""
    error: BaseException | None = None
    for event in chat.agent.turn(words):
        match event:
            case Calling(call=call) if sys.stderr.isatty():
                print(f"  {call.name} {_flat(json.dumps(call.given, ensure_ascii=False))[:100]}", file=sys.stderr)
            case Answered(text=text, cut=cut):
                answer = text
                if cut:
                    print("ebb: the answer was cut at its largest length", file=sys.stderr)
            case Failed(error=failed):
                error = failed
            case Stopped():
                error = KeyboardInterrupt()
    return answer, error


def _code(error: BaseException | None) -> int:
    if error is None:
        return 0
    if isinstance(error, EbbtideError | KeyboardInterrupt):
        raise error
    print(f"ebb: {told(error) if isinstance(error, Exception) else error}", file=sys.stderr)
    return 1


def _summary(chat: Chat, answer: str, error: BaseException | None, known: int) -> Mapping[str, object]:
    used, dollars = chat.bill.usage, chat.bill.dollars
    edits = chat.agent.context.edits()[known:]
    return {
        "session": chat.session,
        "model": chat.setup.provider.model,
        "answer": answer,
        "error": told(error) if isinstance(error, Exception) else None,
        "requests": len(chat.bill.calls),
        "usage": {
            "input": used.input,
            "cache_read": used.cache_read,
            "cache_write": used.cache_write,
            "output": used.output,
        },
        "cost": dollars,
        "edits": [{"by": edit.by, "reason": edit.reason, "saved": edit.saved} for edit in edits],
    }


def _flat(text: str) -> str:
    return " ".join(text.split())
