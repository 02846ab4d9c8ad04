"""Count the bytecodes of our own code that a call runs: a measure of work that is equal on every machine."""

import sys
from collections.abc import Callable
from pathlib import Path

import ebbtide

_OURS = str(Path(ebbtide.__file__).parent)


def count_bytecodes(action: Callable[[], object]) -> int:
    count = 0

    def step(frame, event, arg):
        nonlocal count
        count += event == "opcode"
        return step

    def enter(frame, event, arg):
        if not frame.f_code.co_filename.startswith(_OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    previous_trace = sys.gettrace()
    sys.settrace(enter)
    try:
        action()
    finally:
        sys.settrace(previous_trace)
    return count
