"""What the terminal does to keys while something is printed: nothing."""

import os
import pty
import sys

from ebbtide.fronts.chat.input_line import _raw_input


def test_keys_pressed_while_something_is_printed_arrive_unchanged(monkeypatch):
    """A Return is no line break then, Ctrl-D does not vanish, and nothing is echoed into what is printed."""
    leader, follower = pty.openpty()
    try:
        with os.fdopen(follower) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            keys = _raw_input()
            with keys.raw_mode(), keys.cooked_mode():
                os.write(leader, b"yes\r\x04")
                arrived = b""
                while len(arrived) < 5 and b"\n" not in arrived:
                    arrived += os.read(stdin.fileno(), 5)
            os.write(stdin.fileno(), b"|")
            echoed = os.read(leader, 100)
    finally:
        os.close(leader)

    assert (arrived, echoed) == (b"yes\r\x04", b"|")
