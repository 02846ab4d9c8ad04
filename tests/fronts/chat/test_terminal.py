"""`ebb chat` as a person has it: in a terminal, key by key, screen by screen."""

import os
import re
from pathlib import Path

import pytest

from ebbtide.fronts.chat.chat_records import INTERRUPTED
from fronts.chat.terminal import BUSY, FOOTER, Terminal, needs_tmux
from local_model.model_server import missing
from upstream.script import Failure, Say, Use
from upstream.server import Upstream
from workspace.project_files import git

pytestmark = [needs_tmux(), pytest.mark.timeout(900)]

CALLS = 44


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def environ(place: Path) -> dict[str, str]:
    home = place.parent
    return {"EBB_HOME": str(home / "store"), "HOME": str(home / "home"), "XDG_CONFIG_HOME": str(home / "config")}


def arguments(upstream: Upstream, *more: str) -> list[str]:
    return ["--provider", "anthropic", "--base-url", upstream.url, *more]


def grid(screen: str) -> str:
    return screen[screen.rindex("Context Usage") :]


class Walk:
    """A provider that walks gauge after gauge, sums up when asked, and at last waits for a slow command."""

    def __init__(self) -> None:
        self.done = self.summaries = 0

    def __call__(self, body):
        last = str(body["messages"][-1])
        if "<summary>" in last[-6_000:]:
            self.summaries += 1
            return "<summary>\n## Intent\n- The gauges are walked one by one.\n## State of work\n- Some were read.\n</summary>"
        if INTERRUPTED in last:
            return "I see that it was cut off."
        if "Wait for the tide." in last:
            return [Say("I wait."), Use("bash", {"command": "sleep 600"})]
        if self.done == CALLS:
            return "All gauges are walked."
        self.done += 1
        told = f"Gauge {self.done} stands at {self.done * 31 % 97} hands. "
        words = told + "The reading was taken twice and agrees with the tide table. " * 20
        return [Say(words), Use("bash", {"command": f"seq {self.done}00 {self.done}60"})]


def test_a_long_task_in_a_small_window_with_compactions_a_kill_and_a_resume(place):
    """44 calls at 14,000 tokens: folds by themselves, one by hand, the grid before and after, kill -9, and on."""
    walk = Walk()
    with Upstream(walk, window=14_000) as upstream, Terminal(place.parent) as terminal:
        terminal.start(arguments(upstream, "--window", "14k", "--allow", "bash"), place, environ(place))
        terminal.shows(FOOTER)
        terminal.say("Walk the gauges.")
        # The reply is on the screen while it is written, what was printed before it follows.
        terminal.shows("All gauges are walked.")
        terminal.until(lambda screen: _calls(screen) == CALLS, "all the calls")
        shown = terminal.rests()

        assert walk.done == CALLS
        assert shown.count("Context window filling up, compacting conversation...") >= 2
        assert shown.count("Conversation compacted: ") >= 2
        assert walk.summaries >= 2

        terminal.say("/context")
        before = grid(terminal.shows("Free space"))
        terminal.rests()
        terminal.say("/compact keep the levels")
        terminal.shows("Replace the old turns")
        terminal.answers("y")
        terminal.shows("Conversation compacted.\n")
        terminal.rests()
        terminal.say("/context")
        # A grid may come in several writes: its last row says that it is whole.
        after = grid(terminal.until(lambda screen: screen.count("Free space") == 2, "the second grid"))
        assert "14k tokens" in before
        assert _tokens(after, "Messages") < _tokens(before, "Messages")

        terminal.say("Wait for the tide.")
        terminal.shows("● bash sleep 600")
        terminal.shows("bash... ")
        terminal.kill()
        sent = len(upstream.requests)

        terminal.start(arguments(upstream, "--window", "14k", "--allow", "bash", "--continue"), place, environ(place))
        terminal.shows("The last turn is not finished.")
        terminal.shows(FOOTER)
        terminal.press("Enter")
        terminal.shows("I see that it was cut off.")
        terminal.press("C-d")
        terminal.shows("To continue: ebb chat --resume")

        old, new = (one.parsed["messages"] for one in (upstream.requests[sent - 1], upstream.requests[sent]))
        assert [_plain(message) for message in new[: len(old)]] == [_plain(message) for message in old]
        assert "Walk the gauges." in str(new)
        assert not [one.refused for one in upstream.requests if one.refused]


def _calls(screen: str) -> int:
    return sum(line.startswith("● bash") for line in screen.splitlines())


def _tokens(screen: str, row: str) -> float:
    hits = re.search(rf"{row}: ([0-9.]+)(k?) tokens", screen)
    assert hits, screen
    return float(hits[1]) * (1_000 if hits[2] else 1)


def _plain(message) -> str:
    return re.sub(r", 'cache_control': \{[^}]*\}", "", str(message))


UNTIL_TOLD = "until test -e told; do sleep 0.05; done"


def test_questions_interruptions_queued_text_pastes_and_modes(place):
    script = [
        [Use("bash", {"command": "ls -1"})],
        [Use("bash", {"command": "ls gauges"})],
        [Use("bash", {"command": "sleep 600"})],
        "Then I stop.",
        [Use("bash", {"command": UNTIL_TOLD})],
        "Heard both.",
        "A large paste.",
    ]
    (place / "gauges").mkdir()
    (place / "gauges" / "brest.txt").touch()
    with Upstream(script) as upstream, Terminal(place.parent) as terminal:
        terminal.start(arguments(upstream, "--window", "40k"), place, environ(place))
        terminal.shows(FOOTER)
        terminal.say("Look at them.")
        terminal.shows("always: `ls` with common options, on paths inside the workspace")
        _answer(terminal, "ls -1", "a")
        # `ls` was allowed for good; `sleep` was not.
        terminal.shows("always: exactly this command line")
        _answer(terminal, "sleep 600", "y")
        assert "brest.txt" in terminal.whole()
        terminal.shows("Esc to interrupt")
        # What only looks does not wait; what changes something does.
        terminal.say("/context")
        terminal.shows("Free space")
        terminal.say("/undo")
        terminal.shows("/undo must wait until the agent is done")
        terminal.press("Escape")
        terminal.shows("Interrupted. Type what to do instead")
        terminal.say("Enough.")
        terminal.shows("Then I stop.")

        terminal.say("Wait a little.")
        _answer(terminal, UNTIL_TOLD, "y")
        terminal.say("And this too.")
        terminal.shows("queued: And this too.")
        (place / "told").touch()
        terminal.shows("Heard both.")
        terminal.rests()
        assert "And this too." in str(upstream.requests[5].parsed["messages"][-1])

        terminal.press("BTab")
        terminal.shows("PLAN MODE")
        terminal.paste("a line of the log\n" * 4_000, place.parent)
        terminal.shows("[paste 1: 4,001 lines]")
        terminal.press("Enter")
        terminal.shows("A large paste.")
        # What is printed comes in writes of its own: the reply may be on the screen before.
        screen = terminal.shows("Your paste was saved to disk")
        assert "… 3,980 more lines" in screen
        assert screen.count("a line of the log") == 20
        assert "Plan mode is on" in str(upstream.requests[6].parsed["messages"][-1])
        assert len(str(upstream.requests[6].parsed["messages"][-1])) < 20_000
        terminal.rests()
        terminal.say("/exit")
        terminal.shows("To continue: ebb chat --resume")
        terminal.shows("LEFT 0")


def _answer(terminal: Terminal, command: str, key: str) -> None:
    terminal.until(lambda screen: f"$ {command}" in screen and "May I?" in screen, f"the question about {command}")
    terminal.answers(key)


def test_text_entered_while_the_agent_prints_is_taken_as_typed(place):
    """The agent goes from call to call until it has heard the last word. No Return becomes a line break meanwhile."""
    words = [f"word{n}." for n in range(20)]

    def script(body):
        told = str(body["messages"])
        return (
            "Heard them all." if words[-1] in told else [Use("bash", {"command": f"seq {len(told)} {len(told) + 2}"})]
        )

    with Upstream(script) as upstream, Terminal(place.parent) as terminal:
        terminal.start(arguments(upstream, "--window", "900k", "--allow", "bash"), place, environ(place))
        terminal.shows(FOOTER)
        terminal.say("Go.")
        terminal.shows("● bash")
        for word in words:
            terminal.type(word)
            terminal.press("Enter")
        terminal.shows("Heard them all.")
        # The reply is drawn at once, what is printed waits its turn: it may come after.
        shown = terminal.until(lambda screen: re.findall(r"queued: (.*)", screen) == words, "all words, as typed")
        assert "\nword" not in shown, "a key was echoed by the terminal itself"
        terminal.press("C-c")
        terminal.shows("Press Ctrl-D to leave.")
        terminal.press("C-d")
        terminal.shows("LEFT 0")


def test_enter_on_an_empty_line_retries_what_failed_and_does_nothing_otherwise(place):
    """Also where the very first request failed; and who says `y` with Enter has not asked for anything more."""
    turns = iter([Failure(status=400, message="no tide")])

    with Upstream(lambda _: next(turns, "Here I am.")) as upstream, Terminal(place.parent) as terminal:
        terminal.start(arguments(upstream), place, environ(place))
        terminal.shows(FOOTER)
        terminal.say("Hello.")
        terminal.shows("to try again.")
        # One that comes before the turn is over is nothing, too.
        terminal.until(lambda screen: terminal.press("Enter") or "Here I am." in screen, "the second try")
        terminal.rests()
        for _ in range(3):
            terminal.press("Enter")
        terminal.say("/cost")
        shown = terminal.until(lambda screen: re.search(r"requests +1\b", screen), "one request that was billed")
        assert "nothing to answer" not in shown
        terminal.press("C-d")
        terminal.shows("LEFT 0")


@pytest.mark.skipif(bool(missing()), reason=f"no local model: {missing()} not installed")
def test_five_turns_with_a_real_model_on_this_machine(place):
    with Terminal(place.parent) as terminal:
        terminal.start(["--local", "--window", "2k"], place, environ(place))
        terminal.shows(FOOTER)
        for question in ("Say hello.", "Name a river.", "Name a sea.", "Name a wind.", "Say goodbye."):
            terminal.say(f"{question} One word.")
            terminal.until(lambda screen, question=question: _answered(screen, question), f"an answer to {question}")
        terminal.rests()
        terminal.say("/cost")
        terminal.until(lambda screen: re.search(r"requests +5\b", screen), "five requests")
        terminal.press("C-d")
        terminal.shows("LEFT 0")


def _answered(screen: str, question: str) -> bool:
    """Something stands between the question and the input, and nobody is at work any more."""
    _, asked, below = screen.rpartition(f"> {question} One word.\n")
    said, prompt, _ = below.partition("\n>")
    return bool(asked and prompt and said.strip()) and FOOTER in below and BUSY not in below


def trapped(place: Path) -> Path:
    """A repository whose filter leaves a trace when git compares a file."""
    trace, program = place.parent / "sprung", place.parent / "payload.sh"
    program.write_text(f"#!/bin/sh\ntouch {trace}\ncat\n")
    program.chmod(0o755)
    git(place, "init", "-q", "-b", "trunk")
    (place / "a.txt").write_text("a")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "first")
    git(place, "config", "filter.trap.clean", str(program))
    (place / ".gitattributes").write_text("* filter=trap\n")
    os.utime(place / "a.txt", (1, 1))
    return trace


def test_a_repository_is_asked_about_once_and_git_runs_only_after_a_yes(place):
    trace = trapped(place)
    with Upstream(["One.", "Two.", "Three."]) as upstream, Terminal(place.parent) as terminal:
        terminal.start(arguments(upstream), place, environ(place))
        terminal.shows("Trust this folder? [y/N]")
        assert str(place) in terminal.whole()
        assert not trace.exists()
        terminal.press("n", "Enter")
        terminal.shows("Not trusted. Remembered in")
        terminal.shows(FOOTER)
        terminal.say("Hello.")
        terminal.shows("One.")
        # Nobody asks again.
        terminal.start(arguments(upstream, "Hello."), place, environ(place))
        assert "Trust this folder?" not in terminal.shows("Two.")
        assert not trace.exists()
        # Another answer is given on the command line.
        terminal.start(arguments(upstream, "--trust", "Hello."), place, environ(place))
        assert "Trust this folder?" not in terminal.shows("Three.")
    systems = [str(request.parsed["system"]) for request in upstream.requests]
    assert ["Branch: trunk" in system for system in systems] == [True] * 3
    assert ["Recent commits" in system for system in systems] == [False, False, True]
    assert trace.exists()
    assert not list(place.rglob("*trust*"))
