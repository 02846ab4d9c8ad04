"""`ebb audit`: the sessions of this machine are found and replayed, and what is shared has figures only."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

from ebbtide import example
from ebbtide.config import agent_directories
from ebbtide.formats.agent_folders import find_agent_sessions
from ebbtide.fronts.audit.measure import AuditRow, Measured
from ebbtide.fronts.audit.page import build_page
from ebbtide.fronts.audit.receipt import Month, Prediction, billed_months, describe_receipt
from ebbtide.fronts.audit.tables import by_project, verdict
from ebbtide.replay.run import ReplayOptions, replay_file
from ebbtide.runtime import Context
from ebbtide.store import open_store
from fronts.cli.terminal import recorded

pytest.importorskip("genai_prices")
SECRET = "sk-ant-api03-" + "q" * 60
PROMPT = "rename the harbour of Kilrush before the spring tide"
EBB = [sys.executable, "-m", "ebbtide"]


def ebb(home, *arguments):
    env = {**os.environ, "HOME": str(home), "EBB_HOME": str(home / "store")}
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"):
        env.pop(name, None)
    return subprocess.run([*EBB, *arguments], capture_output=True, text=True, timeout=280, check=False, env=env)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A machine with sessions of three clients, a secret, and a file that is none."""
    home = tmp_path_factory.mktemp("home")
    for folder in (
        ".claude/projects/-home-ada-secretproject",
        ".codex/sessions/2026/03/02",
        ".pi/agent/sessions/--x--",
    ):
        (home / folder).mkdir(parents=True)
    claude = home / ".claude/projects/-home-ada-secretproject"
    recorded(claude / "4f1c.jsonl", steps=12, usage=26_000)
    text = (claude / "4f1c.jsonl").read_text(encoding="utf-8")
    (claude / "4f1c.jsonl").write_text(text.replace("src/f0.py", f"{PROMPT} {SECRET}"), encoding="utf-8")
    recorded(home / ".pi/agent/sessions/--x--" / "p.jsonl", steps=3)
    (home / ".codex/sessions/2026/03/02" / "rollout-x.jsonl").write_text("not json\n", encoding="utf-8")
    return home


@pytest.fixture(scope="module")
def audit(home):
    return ebb(home, "audit", "--window", "20k", "--html", str(home / "page.html"))


def test_the_sessions_of_all_clients_are_found(home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    gemini, opencode = home / ".gemini/tmp/abc/chats", home / ".local/share/opencode/storage/message/ses_1"
    for folder in (gemini, opencode):
        folder.mkdir(parents=True)
    (gemini / "session-1.json").write_text("{}", encoding="utf-8")
    (opencode / "msg_1.json").write_text("{}", encoding="utf-8")

    found = find_agent_sessions(agent_directories())

    assert {session.client for session in found} == {"Claude Code", "Codex", "OpenCode", "pi", "Gemini CLI"}
    assert [session.modified for session in found] == sorted((one.modified for one in found), reverse=True)
    for file in (gemini / "session-1.json", opencode / "msg_1.json"):
        file.unlink()


def test_it_says_what_they_cost_by_project_and_by_month(home, audit):
    assert audit.returncode == 0, audit.stderr
    assert re.match(r"2 sessions, 15 calls: \$", audit.stdout)
    assert "needed again" in audit.stdout
    assert re.search(r"^project +sessions +calls +cost +with Ebbtide +saved", audit.stdout, re.MULTILINE)
    assert re.search(r"^month +sessions", audit.stdout, re.MULTILINE)
    assert "1 file without a model call or not readable" in audit.stdout
    assert "Checked: the providers billed $" in audit.stdout


def test_the_page_to_share_has_no_prompts_paths_names_or_keys(home, audit):
    page = (home / "page.html").read_text(encoding="utf-8")

    for private in (
        SECRET,
        PROMPT,
        "Kilrush",
        "secretproject",
        "4f1c",
        str(home),
        "/home",
        "src/",
        "rollout",
        ".jsonl",
    ):
        assert private not in page, private
    assert "<script" not in page
    assert "project 1" in page
    assert "default-src 'none'" in page


def test_hostile_names_of_projects_stay_off_the_page():
    row = AuditRow(sessions=1, calls=1, cost=1.0, with_ebbtide=0.5)
    results = [Measured(client="pi", project="<img src=x onerror=alert(1)>", month="2026-03", row=row)]

    assert "onerror" not in build_page(results, time.time())


def test_a_session_costs_what_a_replay_of_it_says(home):
    shown = json.loads(ebb(home, "audit", str(example.path()), "--window", "100k", "--json").stdout)
    scores = replay_file(example.path(), ReplayOptions(policies=("recorded", "default"), window=100_000)).scores

    assert shown["complete"] is True
    assert shown["total"]["cost"] == pytest.approx(scores["recorded"].bill)
    assert shown["total"]["with_ebbtide"] == pytest.approx(scores["default"].bill)
    assert shown["total"]["missing"] == scores["default"].used - scores["default"].available


@pytest.mark.parametrize(
    "options",
    [
        ("/no/such/file",),
        ("--window", "many"),
        ("--limit", "-1"),
        ("--html", "/no/such/folder/page.html"),
        ("--wrong",),
    ],
)
def test_bad_input_is_refused_before_the_work_and_nothing_is_written(tmp_path, options):
    refused = ebb(tmp_path, "audit", *options)

    assert refused.returncode == 2
    assert refused.stderr.startswith("ebb")
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_sessions_is_told_where_it_looked(tmp_path):
    refused = ebb(tmp_path, "audit")

    assert refused.returncode == 2
    assert str(tmp_path / ".claude") in refused.stderr


def test_many_projects_are_cut_to_the_most_expensive():
    results = [
        Measured(client="", project=f"p{n}", month="2026-01", row=AuditRow(sessions=1, calls=1, cost=float(n)))
        for n in range(20)
    ]
    rows = by_project(results)

    assert [name for name, _ in rows[:2]] == ["p19", "p18"]
    assert rows[-1][0] == "12 others"
    assert sum(row.cost for _, row in rows) == sum(range(20))


def test_where_it_does_not_pay_it_says_so_and_offers_shadow_mode():
    sentences = " ".join(verdict(AuditRow(sessions=1, calls=9, cost=1.0, with_ebbtide=1.2)))

    assert "it does not pay" in sentences
    assert "ebb run --shadow" in sentences


class TestReceipt:
    def test_it_compares_the_prediction_with_what_was_billed(self):
        predicted = Prediction(at=1_772_000_000, sessions=12, calls=900, saved_share=0.30)
        months = [Month(month="2026-03", sessions=3, calls=200, cost=75.0, saved=25.0)]

        text = "\n".join(describe_receipt(predicted, months))

        assert "from 12 of your sessions: 30.0% saved" in text
        assert "2026-03: billed $75.00 instead of $100.00, $25.00 saved (25.0%)" in text
        assert "-5.0 points against the prediction" in text

    def test_a_loss_is_called_one(self):
        months = [Month(month="2026-03", sessions=3, calls=200, cost=10.0, saved=-2.0)]

        text = "\n".join(describe_receipt(None, months))

        assert "$2.00 more than without Ebbtide" in text
        assert "It does not pay here" in text
        assert "--shadow" in text

    def test_only_what_was_billed_counts(self, tmp_path):
        for name, has_bill in (("billed", True), ("unbilled", False)):
            context = Context(model="claude-sonnet-4-6", window=50_000, store=tmp_path, session=name)
            context.prepare({"model": "claude-sonnet-4-6", "messages": [{"role": "user", "content": "tides " * 3000}]})
            usage = {"usage": {"input_tokens": 9_000, "output_tokens": 2}} if has_bill else {}
            context.record({"role": "assistant", "content": "Well.", **usage})

        (month,) = billed_months(open_store(tmp_path))

        assert (month.sessions, month.calls) == (1, 1)
        assert month.cost == pytest.approx(9_000 * 3 / 1e6)

    def test_an_audit_of_this_machine_is_the_prediction(self, home, audit):
        assert audit.returncode == 0

        text = ebb(home, "audit", "--receipt").stdout

        assert "from 2 of your sessions" in text
        assert "no call through Ebbtide was billed yet" in text
