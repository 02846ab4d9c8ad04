"""A real session, billed by a provider that counts for itself: what the report tells is what was saved."""

import json

import pytest

from ebbtide.runtime import Context
from runtime.sessions import body, loop

READ, WRITE = 0.1, 1.25


class Provider:
    """Counts a token for four characters and keeps the prefix of every request. Knows nothing of edits."""

    def __init__(self):
        self.kept = []

    def bill(self, request):
        blocks = [
            json.dumps({"role": message["role"], "content": message["content"]}, sort_keys=True)
            for message in request["messages"]
        ]
        blocks = [
            block.replace(', "cache_control": {"type": "ephemeral"}', "").replace(
                '"cache_control": {"type": "ephemeral"}, ', ""
            )
            for block in blocks
        ]
        read = max((self.shared(old, blocks) for old in self.kept), default=0)
        self.kept.append(blocks)
        return read, sum(map(self.tokens, blocks)) - read

    @staticmethod
    def tokens(block):
        return -(-len(block) // 4)

    def shared(self, old, new):
        read = 0
        for one, other in zip(old, new, strict=False):
            if one != other:
                break
            read += self.tokens(one)
        return read


def talked(steps=40, **options):
    messages, now = loop(steps), iter(range(0, 100_000, 10))
    context = Context(model="claude-sonnet-4-5", clock=lambda: float(next(now)), marks=True, **options)
    ours, raw = Provider(), Provider()
    paid = untouched = 0.0
    for n in range(1, len(messages) + 1, 2):
        request = {**body(messages[:n]), "model": "claude-sonnet-4-5"}
        ready = context.prepare(request)
        read, write = ours.bill(ready.body)
        paid += READ * read + WRITE * write
        raw_read, raw_write = raw.bill(request)
        untouched += READ * raw_read + WRITE * raw_write
        said = messages[n]["content"] if n < len(messages) else [{"type": "text", "text": "done"}]
        bill = {
            "input_tokens": 0,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": write,
            "output_tokens": 60,
        }
        ready.record({"content": said, "usage": bill})
    return ready.report, paid, untouched


@pytest.mark.parametrize(("policy", "window"), [("default", 30_000), ("default", 60_000), ("claude-code", 60_000)])
def test_the_reported_saving_is_the_difference_between_two_bills(policy, window):
    report, paid, untouched = talked(policy=policy, window=window)
    savings = report.savings

    assert savings.edits
    assert savings.billed_calls
    assert savings.total_cost == pytest.approx(paid)
    # A token for four characters is not our estimator's: what it cannot know, and bills teach, is two percent.
    assert savings.claimed == pytest.approx(untouched - paid, abs=0.02 * untouched)
    assert sum(entry.claimed for entry in savings.edits) == pytest.approx(savings.claimed)


def test_the_report_of_a_request_includes_later_bills():
    context = Context(model="claude-sonnet-4-5", window=30_000)
    ready = context.prepare(body(loop(2)[:1]))

    assert ready.report.savings.bill_count == 0
    ready.record({"content": "done", "usage": {"input_tokens": 900, "output_tokens": 5}})
    assert ready.report.savings.bill_count == 1


def test_savings_survive_the_process(tmp_path):
    """All of it is in the log: whoever opens the session later counts the same."""
    report, *_ = talked(window=30_000, store=tmp_path, session="s")
    later = Context(model="claude-sonnet-4-5", window=30_000, store=tmp_path, session="s")
    messages = loop(40)

    again = later.prepare({**body(messages), "model": "claude-sonnet-4-5"}).report.savings

    assert again.calls[: len(report.savings.calls)] == report.savings.calls
