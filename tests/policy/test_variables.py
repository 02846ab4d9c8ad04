"""The seeds' environment variables, R060-R066: aliases under the presets of their seeds, and nowhere else."""

import pytest

from ebbtide.policy import PRESETS, preset
from ebbtide.policy.adjust import CLAUDE_CODE_VARIABLES, SAGE_VARIABLES, apply_variables


def levels(name, **environ):
    policy, complaints = apply_variables(preset(name), environ)
    return policy.levels(200_000, 1_000), complaints


@pytest.mark.parametrize(
    ("value", "auto"), [("1", 2_000), ("80", 160_000), ("100", 200_000), ("0", 2_000), ("500", 200_000), ("-3", 2_000)]
)
def test_a_percentage_is_clamped_to_1_and_100(value, auto):
    """R060, R061, E7."""
    claude, _ = levels("claude-code", CLAUDE_AUTOCOMPACT_PCT_OVERRIDE=value)
    sage, _ = levels("sage", AUTOCOMPACT_PCT_OVERRIDE=value)

    assert (claude.auto, sage.auto) == (auto, auto)
    assert claude.warning <= claude.auto


@pytest.mark.parametrize("value", ["x", "nan", "80%", "1e", "0x10"])
def test_an_invalid_percentage_is_ignored_with_one_warning(value):
    """R264."""
    claude, complaints = levels("claude-code", CLAUDE_AUTOCOMPACT_PCT_OVERRIDE=value)
    sage, more = levels("sage", AUTOCOMPACT_PCT_OVERRIDE=value)

    assert (claude.auto, sage.auto) == (155_000, 160_000)
    assert (len(complaints), len(more)) == (1, 1)
    assert "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE" in complaints[0]


def test_the_blocking_limit_is_in_tokens():
    """R062."""
    at, _ = levels("claude-code", CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE="190000")

    assert (at.blocking, at.auto) == (190_000, 155_000)


def test_the_reservation_moves_the_lines():
    """R065."""
    at, _ = levels("claude-code", CLAUDE_CODE_MAX_OUTPUT_TOKENS="8000")

    assert (at.auto, at.warning) == (179_000, 159_000)


@pytest.mark.parametrize("value", ["", "0", "-5", "12k", "1" * 5_000, "٣"])
def test_a_malformed_number_of_tokens_changes_nothing(value):
    at, complaints = levels("claude-code", CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE=value)

    assert at.blocking == 197_000
    assert len(complaints) == bool(value)


def test_without_auto_compact_the_effective_space_is_all_that_is_available():
    """R064, R049."""
    policy, _ = apply_variables(preset("claude-code"), {"DISABLE_AUTO_COMPACT": "1"})
    at = policy.levels(200_000, 1_000)

    assert (at.auto, at.warning) == (168_000, 148_000)
    assert policy.last_resort == ()
    assert policy.always == preset("claude-code").always


def test_without_microcompact_only_that_is_off():
    """R066."""
    policy, _ = apply_variables(preset("claude-code"), {"DISABLE_MICROCOMPACT": "true"})

    assert policy.always == ()
    assert policy.last_resort == preset("claude-code").last_resort


def test_without_compact_nothing_is_removed_from_history():
    """R063: what arrives too large still goes to disk."""
    policy, _ = apply_variables(preset("claude-code"), {"DISABLE_COMPACT": "yes"})

    assert (policy.always, policy.pressure, policy.last_resort) == ((), (), ())
    assert policy.arrival == preset("claude-code").arrival


@pytest.mark.parametrize(("value", "complaints"), [("0", 0), ("false", 0), ("off", 0), ("perhaps", 1)])
def test_a_switch_that_is_off_or_unclear_switches_nothing(value, complaints):
    policy, told = apply_variables(preset("claude-code"), {"DISABLE_COMPACT": value})

    assert policy == preset("claude-code")
    assert len(told) == complaints


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in ("claude-code", "sage")])
def test_other_presets_do_not_listen(name):
    """Whoever switched off Claude Code's compaction did not switch off ours."""
    environ = dict.fromkeys((*CLAUDE_CODE_VARIABLES, *SAGE_VARIABLES), "1")

    assert apply_variables(preset(name), environ) == (preset(name), ())


def test_each_listens_to_its_own_only():
    assert apply_variables(preset("sage"), dict.fromkeys(CLAUDE_CODE_VARIABLES, "1")) == (preset("sage"), ())
    assert apply_variables(preset("claude-code"), dict.fromkeys(SAGE_VARIABLES, "1")) == (preset("claude-code"), ())
