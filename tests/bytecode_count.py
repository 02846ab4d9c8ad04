"""How much work something is: bytecodes of our own code, counted. It is the same on every machine and under any load."""

import sys
from collections.abc import Callable
from pathlib import Path

import ebbtide

_OURS = str(Path(ebbtide.__file__).parent)


def work(do: Callable[[], object]) -> int:
    done = 0

    def step(frame, event, arg):
        nonlocal done
        done += event == "opcode"
        return step

    def enter(frame, event, arg):
        if not frame.f_code.co_filename.startswith(_OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        do()
    finally:
        sys.settrace(before)
    return done
