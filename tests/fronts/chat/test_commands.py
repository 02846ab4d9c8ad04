"""Slash commands on a real session: each does one thing, and says what came of it."""

import io
from dataclasses import dataclass, field, replace

import pytest
from rich.console import Console

from ebbtide.core.errors import BadConfig, BadRequest, StoreError
from ebbtide.fronts.chat.chat_records import last_exchange
from ebbtide.fronts.chat.commands import COMMANDS, ExitChat, is_read_only, run_command
from ebbtide.fronts.chat.events import ReplyEnd
from ebbtide.fronts.chat.providers import make_provider
from ebbtide.fronts.chat.session import Chat, Setup, open_chat
from fronts.chat.stage import Stage
from upstream.script import Say, Use
from upstream.server import Upstream


@dataclass
class ChatRunner:
    """A room without a terminal."""

    chat: Chat
    url: str = ""
    yes: bool = True
    last_usage: object = None
    is_agent_working: bool = False
    asked: list[str] = field(default_factory=list)
    told: io.StringIO = field(default_factory=io.StringIO)

    def show(self, what) -> None:
        Console(file=self.told, width=140).print(what)

    def confirm(self, asked: str) -> bool:
        self.asked.append(asked)
        return self.yes

    def reopen(self, setup: Setup, session: str) -> None:
        self.chat = open_chat(setup, session)

    def setup_for_model(self, model: str) -> Setup:
        return replace(self.chat.setup, provider=make_provider("anthropic", model, self.url, self.chat.setup.access))

    def say(self, words: str) -> str:
        """What a turn or a command shows."""
        if not words.startswith("/"):
            for event in self.chat.agent.run_turn(words):
                self.last_usage = event.reply.usage if isinstance(event, ReplyEnd) else self.last_usage
            return ""
        self.told = io.StringIO()
        run_command(self, words)
        return self.told.getvalue()


def script(body):
    """Reads on every question, and sums up when asked to."""
    words = str(body["messages"][-1])
    if "summary" in words.lower() and "Question" not in words:
        return "<summary>\n## Intent\n- The gauges are read one after the other.\n</summary>"
    if "tool_result" in words:
        return "Read: the level is off by a hand."
    return [Say("I read."), Use("read", {"path": "log.txt"})]


@pytest.fixture
def hall(tmp_path):
    with Upstream(script) as upstream:
        stage = Stage(tmp_path, upstream)
        (stage.root / "log.txt").write_text("".join(f"{n}: connection refused by gauge {n}\n" for n in range(200)))
        hall = ChatRunner(stage.chat(), upstream.url)
        for n in range(6):
            hall.say(f"Question {n}: what does the log say?")
        yield hall


def test_the_grid_a_compaction_the_list_and_the_undo(hall):
    before = hall.say("/context")
    assert "claude-sonnet-5" in before
    assert "Tool results" in before
    assert "placeholders" not in before.lower()

    screen = hall.say("/compact keep the gauge numbers")
    assert "Conversation compacted." in screen
    assert "log.txt" in screen
    assert "Replace the old turns" in hall.asked[0]
    assert "summarize" in hall.say("/edits")
    assert "placeholders" in hall.say("/context").lower()

    assert "tokens are back" in hall.say("/undo")
    assert "Nothing was removed" in hall.say("/edits")
    assert "placeholders" not in hall.say("/context").lower()
    assert "Redone" in hall.say("/redo")
    assert "summarize" in hall.say("/edits")


def test_a_compaction_preview_changes_nothing(hall):
    hall.yes = False

    assert "Nothing was changed" in hall.say("/summarize")
    assert not hall.chat.agent.context.edits()


def test_a_manual_compaction_works_right_after_resuming(hall):
    hall.reopen(hall.chat.setup, hall.chat.session)

    assert "Conversation compacted." in hall.say("/compact")
    hall.say("Question 8: still there?")
    assert hall.chat.agent.context.edits()


def test_the_last_exchange_is_shown_without_what_the_harness_added(hall):
    hall.chat.agent.permissions.mode = "plan"
    hall.say("Question 6: the last one.")
    hall.reopen(hall.chat.setup, hall.chat.session)

    assert last_exchange(hall.chat.records, "anthropic") == (
        "Question 6: the last one.",
        "Read: the level is off by a hand.",
    )


def test_recall_finds_and_reads_and_pin_keeps(hall):
    found = hall.say("/recall connection refused by gauge 77")
    assert "gauge 77" in found
    handle = found.split()[0]
    assert "180: connection refused" in hall.say(f"/recall {handle}")
    assert "Pinned" in hall.say("/pin connection refused by gauge 77")
    log = hall.chat.setup.store.peek(hall.chat.session, project=hall.chat.setup.project)
    assert [record["on"] for record in log.read().records if record.get("kind") == "pin"] == [True]
    assert "Nothing recorded matches" in hall.say("/recall zyxwvut")


def test_a_new_conversation_keeps_the_old_one_which_can_be_resumed(hall):
    old = hall.chat.session

    assert f"/resume {old}" in hall.say("/clear")
    assert hall.chat.session != old
    assert not hall.chat.records.messages
    hall.say("Question 1: new.")
    assert old in hall.say("/sessions")
    hall.say(f"/resume {old}")
    assert len(hall.chat.records.messages) == 24


def test_the_model_and_the_policy_change_and_the_conversation_stays(hall):
    messages = len(hall.chat.records.messages)
    hall.say("/model claude-opus-5")
    hall.say("/policy mini-claude")

    assert hall.chat.setup.provider.model == "claude-opus-5"
    assert hall.chat.setup.settings.policy().name == "mini-claude"
    assert len(hall.chat.records.messages) > messages
    assert "mini-claude" in hall.say("/policy")
    with pytest.raises(BadConfig):
        hall.say("/policy nonsense")


def test_cost_shows_what_was_billed(hall):
    told = hall.say("/cost")

    assert "12" in told
    assert "$" in told


def test_export_writes_everything_once(hall):
    assert "Written" in hall.say("/export talk.md")
    text = (hall.chat.setup.root / "talk.md").read_text()
    assert text.count("Question 3") == 1
    assert "199: connection refused" in text
    with pytest.raises(BadRequest, match="already exists"):
        hall.say("/export talk.md")
    with pytest.raises(StoreError):
        hall.say("/export no/such/folder.md")


def test_plan_mode_is_a_switch(hall):
    hall.say("/plan")
    assert hall.chat.agent.permissions.mode == "plan"
    hall.say("/build")
    assert hall.chat.agent.permissions.mode == "build"


def test_help_lists_every_command_and_an_unknown_one_is_reported(hall):
    told = hall.say("/help")

    assert all(f"/{name}" in told for name in COMMANDS)
    with pytest.raises(BadRequest, match="/help"):
        hall.say("/teleport")
    with pytest.raises(ExitChat):
        hall.say("/quit")
    assert "Context Usage" in hall.say("/cont")


def test_compact_says_when_there_is_nothing_to_compact(tmp_path):
    with Upstream(["Hello."]) as upstream:
        hall = ChatRunner(Stage(tmp_path, upstream).chat())
        assert "nothing" in hall.say("/compact").lower()
        assert "Messages: 0 tokens" in hall.say("/context")
        hall.say("Question.")
        assert "nothing" in hall.say("/compact").lower()


def test_while_the_agent_works_only_what_looks_is_answered():
    assert {name for name in COMMANDS if is_read_only(f"/{name}")} == {"context", "edits", "sessions", "cost", "help"}
    assert is_read_only("/nonsense")
    assert not is_read_only("/summarize")


@pytest.mark.parametrize(("said", "meant"), [("/contxt", "did you mean /context?"), ("/zzz", "/help lists")])
def test_a_command_that_is_nearly_right_is_answered_with_what_is(said, meant, hall):
    with pytest.raises(BadRequest) as refused:
        hall.say(said)

    assert meant in str(refused.value)
    assert ("did you mean" in str(refused.value)) == ("did you mean" in meant)
