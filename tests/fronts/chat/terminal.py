"""A real terminal for the tests: tmux on a socket of its own, keys in, the screen out. Every wait is bounded."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ebbtide.fronts.chat.input_line import KEY_GUARD

PATIENCE = 240.0  # seconds: a busy machine takes twenty to start Python
WIDE, HIGH = 110, 40
FOOTER, BUSY = "Context left until auto-compact", "Esc to interrupt"


def needs_tmux() -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Terminal:
    def __init__(self, folder: Path) -> None:
        # The path of a socket may have 107 characters, and a test's folder has more.
        self._stem, self._started = f"ebb-{os.getpid()}-{folder.name[-20:]}", 0

    @property
    def _name(self) -> str:
        """Each start has a server of its own: one that was told to leave may still be on its way out."""
        return f"{self._stem}-{self._started}"

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["tmux", "-L", self._name, "kill-server"], capture_output=True, check=False, timeout=PATIENCE)

    def _tmux(self, *words: str) -> str:
        told = subprocess.run(
            ["tmux", "-L", self._name, "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return told.stdout

    def start(self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> None:
        """`ebb chat` with these arguments, in a window of its own; the last one is left alone."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        settings = {**kept, "TERM": "screen-256color", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", **environ}
        code = "import sys; from ebbtide.fronts.cli.main import main; sys.exit(main())"
        path = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one.rstrip("/").endswith("src"))
        if path:
            settings["PYTHONPATH"] = path
        program = ["env", "-i", *(f"{k}={v}" for k, v in settings.items()), sys.executable, "-c", code, "chat"]
        # The pane outlives the program, so that its last words can be read.
        line = f"exec 2>&1; {shlex.join([*program, *arguments])}; echo LEFT $?; sleep 600"
        size = ("-x", str(WIDE), "-y", str(HIGH))
        self.__exit__()
        self._started += 1
        self._tmux("set-option", "-g", "history-limit", "50000", ";", "new-session", "-d", *size, "-c", str(cwd), line)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def say(self, text: str) -> None:
        self.type(text)
        self.until(lambda screen: text[-30:] in screen, f"{text[-30:]!r} in the input")
        self.press("Enter")

    def paste(self, text: str, folder: Path) -> None:
        """As a terminal pastes: in brackets."""
        source = folder / "pasted"
        source.write_text(text)
        self._tmux("load-buffer", str(source))
        self._tmux("paste-buffer", "-p")

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def whole(self) -> str:
        """With what has scrolled away; a folded line is one line."""
        screen = self._tmux("capture-pane", "-p", "-J", "-S", "-")
        return "\n".join(row.rstrip() for row in screen.splitlines()) + "\n"

    def until(self, seen, what: str) -> str:
        """Waits until the screen shows something. `seen` is a text, or asks the screen."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            shown = self.whole()
            if seen(shown) if callable(seen) else seen in shown:
                return shown
            time.sleep(0.1)
        raise AssertionError(f"never came: {what}\n{self.whole()}")

    def shows(self, text: str) -> str:
        return self.until(text, repr(text))

    def rests(self) -> str:
        """Once something of a turn is on the screen: until the turn is over. The footer is drawn after the spinner."""
        self.until(lambda _: FOOTER in (now := self.screen()) and BUSY not in now, "the input, with nobody at work")
        return self.whole()

    def answers(self, key: str) -> None:
        """One key, to a question that is on the screen: none that comes sooner is taken for an answer."""
        time.sleep(KEY_GUARD)
        self.press(key)

    def kill(self) -> None:
        """As a power cut does it."""
        pane = int(self._tmux("display-message", "-p", "#{pane_pid}"))
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pane)], capture_output=True, text=True, check=True)
        for pid in children.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        self.shows("LEFT 137")
