"""Histories that broke sessions of other programs do not break ours."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.wire import WIRES
from ebbtide.wire.validity import UNVERIFIED, repair, violations
from poison.anthropic_cases import CASES
from poison.bedrock_cases import BEDROCK
from poison.gemini_cases import GEMINI
from poison.openai_cases import CHAT, RESPONSES

ALL = [*CASES, *CHAT, *RESPONSES, *GEMINI, *BEDROCK]
REPAIRABLE = [case for case in ALL if case.rules and not case.refused]
each = pytest.mark.parametrize("case", ALL, ids=[f"{case.source} {case.name}" for case in ALL])
each_repairable = pytest.mark.parametrize("case", REPAIRABLE, ids=[f"{case.source} {case.name}" for case in REPAIRABLE])


@each
def test_its_rule_is_named(case):
    broken_rules = {violation.rule for violation in violations(WIRES[case.wire], case.body)}
    # A result that another repair moves to its call is reported by that rule.
    assert set(case.rules) - UNVERIFIED <= broken_rules | {"A16", "C2"}
    assert bool(broken_rules) == bool(set(case.rules) - UNVERIFIED)


@each_repairable
def test_it_is_valid_after_repair_and_the_original_stays(case):
    stored = json.dumps(case.body)
    body = json.loads(stored)

    fixed, repairs = repair(WIRES[case.wire], body)

    assert violations(WIRES[case.wire], fixed) == []
    assert json.dumps(body) == stored
    assert set(case.rules) <= {repair.rule for repair in repairs} | {"A16", "R2", "R1", "C2"}
    assert all(repair.what and repair.path for repair in repairs)
    json.dumps(fixed, ensure_ascii=False).encode()


@each_repairable
def test_repairing_twice_equals_repairing_once(case):
    fixed, _ = repair(WIRES[case.wire], case.body)
    assert repair(WIRES[case.wire], fixed) == (fixed, ())
    assert repair(WIRES[case.wire], copy.deepcopy(case.body))[0] == fixed


@pytest.mark.parametrize("case", [case for case in ALL if case.refused], ids=lambda case: case.name)
def test_an_irreparable_request_is_refused_with_path_and_rule(case):
    with pytest.raises(BadRequest) as refusal:
        repair(WIRES[case.wire], case.body)
    assert refusal.value.path
    assert any(f"[{rule}]" in str(refusal.value) for rule in case.rules)


@pytest.mark.parametrize("case", [case for case in ALL if not case.rules], ids=lambda case: case.name)
def test_content_that_only_a_beta_header_decides_passes_unchanged(case):
    assert repair(WIRES[case.wire], case.body)[0] is case.body


def test_the_corpus_is_large_and_has_no_doubles():
    assert len(REPAIRABLE) >= 60
    assert len({(case.wire, case.name) for case in ALL}) == len(ALL)


def test_every_process_makes_the_same_repair():
    """Cached prefixes are shared between processes, whatever their hash seed."""
    program = "from poison.test_corpus import digest; print(digest())"
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root / "tests")])}
    runs = {
        subprocess.run(
            [sys.executable, "-c", program], env={**env, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{digest()}\n".encode()}


def digest() -> str:
    fixed = [repair(WIRES[case.wire], case.body) for case in REPAIRABLE]
    return hashlib.sha256(repr(fixed).encode("utf-8", "backslashreplace")).hexdigest()
