"""The dial: one choice of three, taken wherever a policy is taken, and named first wherever policies are listed."""

import anthropic
import pytest

import ebbtide
from ebbtide.config import load_settings
from ebbtide.core.errors import BadConfig
from ebbtide.policy import DIAL, POLICY_NAMES
from fronts.cli.terminal import Ebb, recorded
from runtime.sessions import body, loop

COMMANDS = ("fit", "explain", "context", "report", "demo", "proxy", "run", "ui", "chat")


@pytest.fixture
def ebb(monkeypatch, tmp_path):
    return Ebb(monkeypatch, tmp_path)


def test_the_dial_goes_from_what_keeps_most_to_what_costs_least():
    assert tuple(DIAL) == ("keep-more", "balanced", "spend-less")
    thresholds = [policy.levels(200_000, 8_000).auto for policy in DIAL.values()]
    assert thresholds == sorted(thresholds, reverse=True)
    assert POLICY_NAMES[:4] == ("keep-more", "balanced", "spend-less", "default")


@pytest.mark.parametrize("name", DIAL)
def test_every_part_of_the_library_takes_a_point_of_the_dial(name):
    request = body(loop(12))
    ready = ebbtide.Context(window=6_000, policy=name).prepare(request)
    wrapped = ebbtide.wrap(anthropic.Anthropic(api_key="none"), policy=name)

    assert ready.report.edits
    assert ebbtide.fit(request, window=6_000, policy=name).report.edits
    assert isinstance(wrapped, anthropic.Anthropic)
    assert ebbtide.preset(name) is DIAL[name]


@pytest.mark.parametrize("name", DIAL)
def test_every_source_of_settings_takes_a_point_of_the_dial(name, tmp_path):
    project = tmp_path / "ebbtide.toml"
    project.write_text(f'policy = "{name}"\n')

    for settings in (
        load_settings(arguments={"policy": name}, environ={}),
        load_settings(environ={"EBB_POLICY": name}),
        load_settings(environ={"HOME": str(tmp_path.parent)}, cwd=tmp_path),
    ):
        assert settings.policy().name == DIAL[name].name


@pytest.mark.parametrize("name", DIAL)
def test_commands_take_a_point_of_the_dial(name, ebb, tmp_path):
    session = recorded(tmp_path / "session.jsonl", steps=12)

    for command in ("fit", "explain", "report"):
        result = ebb(command, "session.jsonl", "--window", "30k", "--policy", name)
        assert result.code == 0, result.err
    result = ebb("replay", str(session), "--policies", name, "--window", "30k", "--workers", "1")
    assert result.code == 0, result.err
    assert f"\n{name} " in result.text


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_with_a_policy_explains_the_dial(command, ebb):
    words = " ".join(ebb(command, "--help").text.split())

    assert "keep-more, balanced (default) or spend-less" in words


def test_an_unknown_name_is_answered_with_the_dial_first(ebb, tmp_path):
    recorded(tmp_path / "session.jsonl", steps=4)
    errors = [
        ebb("fit", "session.jsonl", "--policy", "cheap").err,
        ebb("replay", "session.jsonl", "--policies", "x").err,
    ]
    for take in (lambda: ebbtide.Context(policy="cheap"), lambda: load_settings(environ={"EBB_POLICY": "cheap"})):
        with pytest.raises(BadConfig) as refused:
            take()
        errors.append(str(refused.value))

    assert all("there are keep-more, balanced, spend-less, " in error for error in errors)


def test_the_doctor_says_which_point_is_chosen(ebb, monkeypatch):
    assert "balanced; you can also choose keep-more, spend-less" in ebb("doctor").text
    monkeypatch.setenv("EBB_POLICY", "spend-less")
    assert "spend-less; you can also choose keep-more, balanced" in ebb("doctor").text
