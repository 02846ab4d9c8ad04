"""The fuzzers themselves: every seed keeps its reader's promises, and so do a few inputs made from them.

The campaign is `python benchmarks/fuzz.py`; what it finds becomes a test beside the reader.
"""

from pathlib import Path
from random import Random

import pytest
from benchmarks import fuzz, fuzz_places, fuzz_servers, fuzz_targets
from benchmarks.fuzz_mutate import LONGEST, Mutator

PURE = fuzz_targets.targets()
TARGETS = [*PURE, *fuzz_places.targets(), *fuzz_servers.targets()]
FEW = 12
TWICE = (
    b'{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"x"}],"messages":['
    b'{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},'
    b'{"role":"assistant","content":[]},{"role":"user","content":"d"}]}'
)


def seeds_of(target):
    return sorted({seed for seed in target.seeds() if seed}, key=lambda seed: (len(seed), seed))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_random_seeds_keep_the_promises(target):
    with target.check() as check:
        for data in seeds_of(target)[:FEW]:
            check(data)


@pytest.mark.parametrize("target", PURE, ids=lambda target: target.name)
def test_the_same_seed_makes_the_same_inputs_and_they_keep_the_promises(target):
    first, second = (Mutator(seeds_of(target), Random(f"test {target.name}"), target.words) for _ in range(2))
    with target.check() as check:
        for _ in range(FEW):
            data = first.input()
            assert data == second.input()
            assert len(data) <= LONGEST
            check(data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("request-anthropic", TWICE),
        ("stub", b"[ebb: result, 1 tokens, " + b"9" * 5000 + b" lines; not kept]"),
        ("format-claude_code", b"\xef\xbb\xbf"),
        ("config", b"window = " + b"9" * 5000),
    ],
)
def test_inputs_that_once_failed_pass_now(name, data):
    (target,) = (one for one in TARGETS if one.name == name)
    with target.check() as check:
        check(data)


def test_the_page_on_security_shows_what_was_measured():
    page = Path(__file__).parents[1] / "docs" / "explanation" / "security.md"
    rows = fuzz.table().splitlines()

    assert len(rows) == 2 + len(TARGETS)
    assert fuzz.table() in page.read_text(encoding="utf-8")
