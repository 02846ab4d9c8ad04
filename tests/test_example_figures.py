"""The example has one size, one model and one price: every command, page and picture shows the same figures of it."""

import json
import re
from pathlib import Path

import pytest

from ebbtide import example, preset
from ebbtide.display import short_number
from ebbtide.formats import load
from ebbtide.fronts.cli.main import main
from ebbtide.fronts.demo import story
from ebbtide.fronts.demo.story import play_story, with_demo_savings
from ebbtide.money import format_usd, session_cost, session_figures
from ebbtide.replay.simulate import simulate
from fronts.ui.inspector import library, page

pytest.importorskip("genai_prices")
ROOT = Path(__file__).resolve().parents[1]
WINDOW = example.WINDOW
AT = ("--example",)


def figures_of(policy, window):
    recording = load(example.path())
    calls = list(recording.requests())
    history, _ = simulate(calls, name="", wire=recording.wire, policy=policy, window=window, format=recording.format)
    return session_figures(session_cost(history.records))


@pytest.fixture(scope="module")
def figures():
    return figures_of(preset("default"), WINDOW)


@pytest.fixture
def ebb(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("EBB_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*arguments):
        assert main(arguments) == 0
        return capsys.readouterr().out

    return run


def test_the_session_has_one_real_model_with_a_price(figures):
    assert {call.model for call in load(example.path()).requests()} == {"claude-sonnet-4-6"}
    assert figures.in_dollars
    assert figures.tokens_without == figures.peak_without > 1.5 * WINDOW
    assert 0 < figures.cost < figures.cost_without


@pytest.mark.parametrize("command", ["explain", "report"])
def test_explain_and_report_name_the_figures(ebb, figures, command):
    text, savings = ebb(command, *AT), json.loads(ebb(command, *AT, "--json"))[0]["savings"]

    assert (savings["tokens"], savings["tokens_without"]) == (figures.tokens, figures.tokens_without)
    assert savings["bill_usd"] == pytest.approx(figures.cost, abs=1e-6)
    assert savings["bill_without_usd"] == pytest.approx(figures.cost_without, abs=1e-6)
    assert savings["saved_usd"] == pytest.approx(figures.cost_without - figures.cost, abs=1e-5)
    cost, without = format_usd(figures.cost), format_usd(figures.cost_without)
    assert f"Saved {format_usd(figures.saved)}, {figures.saved_share:.1%}: {cost} instead of {without}" in text
    assert f"{short_number(figures.tokens)} tokens instead of {short_number(figures.tokens_without)}" in text


def test_the_savings_of_all_edits_are_the_savings_of_the_session(ebb, figures):
    edits = [edit for batch in json.loads(ebb("explain", *AT, "--json"))[0]["batches"] for edit in batch["edits"]]

    assert sum(edit["usd"] for edit in edits) == pytest.approx(figures.saved, abs=1e-4)


def test_the_window_of_the_last_request_is_the_same_size(ebb, figures):
    assert json.loads(ebb("context", *AT, "--json"))["tokens"] == figures.tokens_without


def test_a_replay_bills_the_same(ebb, figures):
    policies = ("--policies", "raw,recorded,default", "--no-recall")
    totals = json.loads(ebb("replay", *AT, *policies, "--json"))["totals"]
    raw, recorded, ours = (totals[name]["sums"] for name in ("raw", "recorded", "default"))

    assert raw["bill"] == recorded["bill"] == pytest.approx(figures.cost_without)
    assert ours["bill"] == pytest.approx(figures.cost)
    assert (raw["peak"], ours["peak"]) == (figures.peak_without, figures.peak)


def test_the_first_line_of_a_replay_names_the_figures(ebb, figures):
    line = ebb("replay", *AT, "--policies", "raw,default", "--no-recall").splitlines()[1]

    cost, without = format_usd(figures.cost), format_usd(figures.cost_without)
    assert line.startswith(
        f"default costs {cost} instead of {without} without Ebbtide, {figures.saved_share:.0%} less."
    )


def test_the_page_to_send_shows_them(ebb, figures, tmp_path):
    ebb("report", *AT, "--html", str(tmp_path / "page.html"))
    html = (tmp_path / "page.html").read_text(encoding="utf-8")

    for figure in (figures.saved, figures.cost, figures.cost_without):
        assert format_usd(figure) in html
    assert f"instead of {short_number(figures.tokens_without)}" in html


async def test_the_inspector_shows_them(figures, tmp_path):
    async with page(library(tmp_path, str(example.path()), window=WINDOW)) as ask:
        (row,) = (await ask.get("sessions"))["sessions"]
        shown = await ask.get(f"session/{row['key']}")
        calls = await ask.get(f"session/{row['key']}/calls")

    assert (shown["tokens"], shown["untouched"], shown["peak"]) == (
        figures.tokens,
        figures.tokens_without,
        figures.peak,
    )
    assert (calls["tokens"][-1], calls["untouched"][-1]) == (figures.tokens, figures.tokens_without)
    assert sum(part[-1] for part in calls["parts"].values()) == pytest.approx(figures.tokens, abs=len(calls["parts"]))
    assert shown["cost"] == pytest.approx(figures.cost, abs=1e-6)
    assert shown["saved_usd"] == pytest.approx(figures.saved, abs=1e-6)


def test_the_demo_begins_from_the_same_bill(figures):
    *_, last = play_story(preset("default"))

    assert last.raw == figures.tokens_without
    assert last.bill.without_ebbtide == pytest.approx(figures.cost_without)


def test_the_demo_ends_with_the_figures_of_a_replay_in_its_window():
    *_, last = play_story(preset("default"))
    replayed = figures_of(with_demo_savings(preset("default")), story.WINDOW)

    assert last.sent == replayed.tokens
    assert last.bill.with_ebbtide == pytest.approx(replayed.cost)
    assert last.bill.saved_share == pytest.approx(replayed.saved_share)
    for picture in ("demo.svg", "demo-film.svg"):
        text = (ROOT / "docs" / "images" / picture).read_text(encoding="utf-8")
        assert format_usd(replayed.cost) in text
        assert short_number(replayed.tokens) in text


def test_the_pictures_and_the_readme_show_them(figures):
    session, demo, readme, numbers = (
        (ROOT / path).read_text(encoding="utf-8")
        for path in ("docs/images/session.svg", "docs/images/demo.svg", "README.md", "docs/explanation/numbers.md")
    )
    raw, ours = f"{figures.tokens_without / 1000:.0f}k", f"{figures.tokens / 1000:.0f}k"

    assert f"without Ebbtide: {raw}" in session
    assert f"with Ebbtide: {ours}" in session
    assert short_number(figures.tokens_without) in demo
    assert format_usd(figures.cost_without) in demo
    assert f"{raw} to {ours} tokens in the last request" in readme
    assert f"{raw} to {ours} tokens in the last request" in numbers
    sizes = set(re.findall(r"(1\d\d)k(?= tokens| to )", readme))
    assert sizes <= {raw.removesuffix("k"), "100"}
