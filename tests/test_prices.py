"""Dollars come from the maintained table, for every way a model is named, and agree with what the core decides by."""

import socket
import subprocess
import sys

import pytest

from ebbtide.core.cache.prefix import prices_for
from ebbtide.prices import find_rates

data = pytest.importorskip("genai_prices.data")

NOT_TEXT = ("image", "audio", "realtime", "transcribe", "tts", "live", "embedding")
DIFFER = {
    "claude-3-haiku",  # read at 0.12 and written at 1.2: of 2024, and not worth a pattern
    "codex-mini",
    "gpt-oss-safeguard-20b",
}


def cached_rows():
    for provider in data.providers:
        if provider.id not in ("anthropic", "openai"):
            continue
        for row in provider.models:
            rates = find_rates(row.id)
            if rates and rates.read < rates.input and not any(word in row.id for word in NOT_TEXT):
                yield row.id


@pytest.mark.parametrize("ttl", [300.0, 3600.0])
def test_the_core_decides_by_the_prices_that_the_table_bills(ttl):
    """Relative prices live in the core, which may ask no table: every cached model of both vendors is compared."""
    names = [name for name in cached_rows() if name not in DIFFER]
    table = {name: find_rates(name, ttl=ttl) for name in names}
    core = {name: prices_for(name, ttl) for name in names}

    assert len(names) > 30
    assert {n: (r.read / r.input, r.write / r.input) for n, r in table.items()} == {
        n: (pytest.approx(p.read), pytest.approx(p.write)) for n, p in core.items()
    }


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("claude-sonnet-4-5", "anthropic claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "anthropic claude-sonnet-4-5"),
        ("claude-opus-4-6[1m]", "anthropic claude-opus-4-6"),
        ("anthropic/claude-sonnet-4.5", "anthropic claude-sonnet-4-5 (for"),
        ("openrouter/anthropic/claude-haiku-4.5", "anthropic claude-haiku-4-5 (for"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "anthropic claude-opus-4-5 (for"),
        ("vertex_ai/claude-sonnet-4@20250514", "anthropic claude-sonnet-4-0 (for"),
        ("openai/gpt-5", "openai gpt-5 (for"),
        ("gpt-5.2-2025-12-11", "openai gpt-5.2"),
        ("groq/llama-3.3-70b-versatile", "groq llama-3.3-70b-versatile (for"),
        ("qwen3-coder", "openrouter qwen/qwen3-coder (for qwen3-coder, as sold there"),
    ],
)
def test_a_model_is_known_by_every_name_that_clients_give_it(name, row):
    assert find_rates(name).basis.startswith(row)


def test_a_newer_version_costs_as_the_last_known_of_its_family_and_says_so():
    newer, last = find_rates("claude-opus-4-99"), find_rates("claude-opus-4-8")

    assert (newer.input, newer.output) == (last.input, last.output)
    assert "claude-opus-4-8 (nearest to claude-opus-4-99" in newer.basis
    assert "gpt-5.3-codex" in find_rates("gpt-5.9-codex").basis, "not a model of another kind"


@pytest.mark.parametrize("name", ["", "<synthetic>", "claude", "my-own-finetune", "gpt-2", "../../etc/passwd"])
def test_an_unknown_model_has_no_price(name):
    assert find_rates(name) is None


def test_claude_writes_for_an_hour_at_twice_the_price_of_input():
    five, hour = find_rates("claude-sonnet-4-5"), find_rates("claude-sonnet-4-5", ttl=3600)

    assert (five.write, hour.write) == (1.25 * five.input, 2 * hour.input)
    assert five.read == hour.read == pytest.approx(0.1 * five.input)


def test_other_providers_write_at_the_input_price_and_give_no_discount_they_do_not_publish():
    cached, plain = find_rates("gpt-5", ttl=3600), find_rates("gpt-5-pro")

    assert cached.write == cached.input > cached.read
    assert plain.read == plain.write == plain.input


def test_a_long_request_costs_the_price_of_long_requests():
    short, edge, long = (find_rates("claude-sonnet-4-5", prompt=prompt) for prompt in (0, 200_000, 200_001))

    assert short == edge
    assert (long.input, long.read, long.output) == (2 * short.input, 2 * short.read, 1.5 * short.output)


def test_a_price_that_changed_is_the_newest_and_never_the_clocks():
    """o3 cost 10 dollars once. Nothing else may decide: a replay gives the same bill tomorrow."""
    assert find_rates("o3").input == 2.0


def test_no_price_needs_the_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a price table does not phone")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    find_rates.cache_clear()

    assert find_rates("claude-haiku-4-5").input == 1.0


def test_without_the_extra_the_message_names_it():
    script = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from ebbtide import EbbtideError; from ebbtide.prices import find_rates\n"
        "try: find_rates('gpt-5')\n"
        "except EbbtideError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)

    assert "pip install 'ebbtide[replay]'" in run.stdout, run.stderr
