"""A figure on a page is the one in `benchmarks/results`: who measures again has to tell it again.

Of a line that is told apart by how it begins, the numbers are read, and the measured values must be among them in their
order, each rounded as it is written there. What a page tells of several runs, or of an earlier state, stands in no
result and is not looked at.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
README, BENCHMARKS = "README.md", "benchmarks/README.md"
TEAM, RECALL, FAULTS = "docs/how-to/team.md", "docs/how-to/recall.md", "docs/explanation/faults.md"
DEFAULT, TOKENS, FOLDS, LAWS, NUMBERS, SIDE_BY_SIDE = (
    f"docs/explanation/{name}.md" for name in ("default", "tokens", "folds", "laws", "numbers", "is-it-for-me")
)


@lru_cache
def results(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def result(name):
    return results(name)["result"]


def says(written, value):
    """Whether a number, as it is written, is this value. A single digit says too little, unless nothing was cut off."""
    said = float(written.replace(",", ""))
    digits = len(written.partition(".")[2])
    telling = len(written) > 1
    return said == value or (telling and abs(said - value) <= 0.5 * 10**-digits * (1 + 1e-9))


def missing(line, values):
    """The first of the values that is not among the line's numbers, in their order, and all after it."""
    numbers = iter(NUMBER.findall(line))
    return [value for value in values if not any(says(written, value) for written in numbers)]


def tokens(page_rows):
    table = result("tokens")["table"]
    for start, key, seeds in page_rows:
        row = table[key]
        values = [100 * row[name] for name in ("cold", "anchored", "exceeded", *seeds)]
        yield TOKENS, start, values if key == "all" else [row["calls"], *values]


def of_tokens():
    table = result("tokens")["table"]
    classes = [row["cold"] for row in table.values() if row["calls"] >= 30]
    yield NUMBERS, "| token estimate, anchored", [100 * table["all"]["anchored"]]
    yield NUMBERS, "| token estimate, cold", [100 * table["all"]["cold"], 100 * max(classes)]
    yield NUMBERS, "| calls whose bill exceeded", [100 * table["all"]["exceeded"]]
    yield NUMBERS, "The token figures are of", [table["all"]["calls"]]
    yield TOKENS, "`python benchmarks/tokens.py` on the", [table["all"]["calls"]]
    seeds = ("opencode (chars/4)", "claude-code (chars/4 x 4/3)")
    yield from tokens(
        [
            ("| all |", "all", seeds),
            ("| Claude Code,", "format: claude-code", seeds),
            ("| Codex,", "format: codex", seeds),
            ("| pi,", "format: pi", seeds),
            ("| sessions with Chinese,", "language: with Chinese", seeds),
            ("| mostly JSON,", "content: json", seeds),
        ]
    )
    yield TOKENS, "- The *cold* bound,", [100 * table["all"]["cold exceeded"]]
    yield TOKENS, "  recording lacks;", [100 * table["all"]["fresh exceeded"]]


POINTS = {
    "| raw: nothing ever taken out": "raw",
    "| **default (or": "default",
    "| default as a library": "default+library",
    "| `keep-more`": "keep-more",
    "| `spend-less`": "spend-less",
    "| the clients' own": "recorded",
}
ARMS = {
    "| `opencode`": "opencode",
    "| `mini-claude`": "mini-claude",
    "| `claude-code`": "claude-code",
    "| `learn-v5`": "learn-v5",
    "| `sage`": "sage",
    "| LangChain `SummarizationMiddleware`": "langchain-summary",
    "| the same as deepagents": "langchain-summary-tuned",
    "| LangChain `ContextEditingMiddleware`": "langchain-editing",
    "| the same at 80 %, keeping": "langchain-editing-tuned",
    "| pydantic-ai-harness `TieredCompaction`": "harness-tiered",
    "| the same at 80 % of": "harness-tiered-tuned",
}


def of_replay():
    half = results("frontier")["halves"]["report"]
    arms = half["arms"]
    ours, theirs = arms["default"], arms["recorded"]
    shares = [ours["bill"], 100 * ours["available"], theirs["bill"], 100 * theirs["available"]]
    yield NUMBERS, "| 47 recorded files", [len(half["files"]), *shares]
    yield README, "| bill of 47", [len(half["files"]), ours["bill"], theirs["bill"]]
    yield README, "| names used again", [100 * ours["available"], 100 * theirs["available"]]
    yield SIDE_BY_SIDE, "| the bill of 47", [len(half["files"]), theirs["bill"], ours["bill"]]
    yield SIDE_BY_SIDE, "| names needed later", [100 * theirs["available"], 100 * ours["available"]]
    yield DEFAULT, "Window 200,000, cache kept", [len(half["files"]), half["calls"], half["uses"]]
    for start, name in POINTS.items():
        arm = arms[name]
        above = [arm["over"]] if arm["over"] else []
        keys = ("bill", "bill_without_surcharge", "bill_with_recalls", "available", "in_context")
        yield DEFAULT, start, [*above, *(arm[key] for key in keys)]
    yield (
        DEFAULT,
        "| the default before this one",
        [results("baseline")["halves"]["report"]["arms"]["default"][key] for key in keys],
    )
    arms = results("replay_peers")["halves"]["report"]["arms"]
    for start, name in ARMS.items():
        arm = arms[name]
        above = [arm["over"]] if arm["over"] else []
        yield DEFAULT, start, [*above, *(arm[key] for key in ("bill", "available", "in_context"))]
    windows = results("default")
    yield DEFAULT, "Other windows, every third", [windows["files"], windows["calls"]]
    for window, both in windows["windows"].items():
        rows = [both[when] for when in ("before", "now") if when in both]
        keys = ("bill", "bill_with_recalls", "available", "in_context")
        yield DEFAULT, f"| {int(window):,} |", [int(window), *(row[key] for key in keys for row in rows)]


def of_what_is_kept():
    table = result("retention")["table"]
    fold, recorded = table["claude-code, all, fold"], table["claude-code, all, recorded"]
    ours = [fold["points"], 100 * fold["names"], fold["mean tokens"] / 1000, fold["tokens"] / 1000]
    yield (
        NUMBERS,
        "| what our compaction without a model keeps",
        [*ours, *(100 * recorded[key] for key in ("changed", "read", "names"))],
    )
    yield FOLDS, "in recorded sessions of Claude Code", [100 * recorded["read"], 100 * recorded["names"]]
    rows = result("folds")
    half = len(rows) // 2
    beside = [fmean(row["after"] - row["spoken"] for row in part) / 1000 for part in (rows[:half], rows[half:])]
    freed = [fmean(row["freed"] for row in part) / 1000 for part in (rows[:half], rows[half:])]
    last = rows[-1]
    yield NUMBERS, "| twenty compactions of one history", [last["messages"], last["verbatim"], *beside, *freed]


def of_size():
    store, load = result("store"), results("store")["machine"]["load"]
    resume = [store["resume"]["seconds"], load, store["resume"]["cpu_seconds"], store["resume"]["memory_mb"]]
    message = result("store_bytes")
    yield NUMBERS, "| store, per message", [message["sessions"], message["bytes_per_message"]]
    yield NUMBERS, "| resume of a log", resume
    yield BENCHMARKS, "| disk per message", [message["bytes_per_message"]]
    yield BENCHMARKS, "| resume of 100 MB", [store["log_lines"], *resume]
    yield BENCHMARKS, "| commit of 4 KB", [store[name]["commit"]["p50"] for name in ("durable", "not durable")]
    sizes = [result("install_size")[name] for name in ("ebbtide", "pydantic-ai-harness", "langchain", "haystack-ai")]
    installed = [*(size["with_requirements"] / 1e6 for size in sizes), *(one["distributions"] for one in sizes)]
    yield BENCHMARKS, "| installation:", installed
    memory = result("memory")
    ours, talk = memory["subjects"]["ebbtide"], memory["conversation"]
    yield BENCHMARKS, "| memory of 10,000", [(ours["between_turns"] - talk) / 1e6, talk / 1e6, ours["one_turn"] / 1e6]


def of_speed():
    acts = result("acting")["windows"]["200000"]["ebbtide"]
    slowest = max(acts[kind]["slowest"] for kind in ("clearing", "folding"))
    yield NUMBERS, "| a turn that clears or compacts", [acts["clearing"]["max"], acts["folding"]["max"], slowest]
    for window in ("200000", "128000", "64000"):
        kinds = result("acting")["windows"][window]["ebbtide"]
        values = [
            kinds[kind][key] for kind in ("idle", "offloading", "clearing", "folding") for key in ("median", "max")
        ]
        yield BENCHMARKS, f"| window {int(window):,}: median", [*values, kinds["folding"]["turns"]]
    proxy = result("proxy")
    aims = {name: aim["measured"] for name, aim in proxy["aims"].items()}
    first = {name: one["first byte ms"]["p50"] for name, one in proxy["idle"].items()}
    added = [aims["added p50 ms"], aims["added p99 ms"], first["litellm"] - first["direct"]]
    yield NUMBERS, "| what `ebb proxy` adds", [*added, aims["litellm's cpu, times ours"]]
    yield README, "| what the proxy adds", [aims["added p50 ms"], first["litellm"] - first["direct"]]
    yield BENCHMARKS, "| time to the first byte", [aims["added p50 ms"], first["pass-through"] - first["direct"]]
    yield BENCHMARKS, "| the same, p99", [aims["added p99 ms"]]
    order = ("ebb proxy", "pass-through", "litellm")
    yield BENCHMARKS, "| CPU per stream", [proxy["idle"][name]["cpu ms a stream"] for name in order]
    yield BENCHMARKS, "| CPU per chunk", [proxy["chunk cpu"][name]["ms"] for name in order]
    imports = {name: one["wall"] for name, one in result("import_time").items()}
    wanted = ("ebbtide", "ebbtide.Context, first use", "langchain.agents", "pydantic_ai")
    yield NUMBERS, "| import, and the first use", [imports[name] for name in wanted]
    idle = result("per_turn")["results"]["idle"]
    for name in ("ebbtide prepare", "ebbtide record", "langchain trim_messages", "harness ClearToolResults"):
        values = [idle[length][name][key] for length in ("200", "1000", "5000") for key in ("cpu", "least")]
        yield BENCHMARKS, f"| {name} |", values


def of_isolation():
    columns = ("calls", "leaks", "stale", "crossed", "invalid", "over", "refused", "sought", "lost", "recalled")
    for name, row in result("isolation")["rows"].items():
        handles = [] if row["handles"] is None else [row["opened"], row["handles"]]
        for page in (BENCHMARKS, LAWS):
            yield page, f"| {name} |", [*(row[column] for column in columns), *handles]


def of_a_team():
    team, crashes, found = result("team"), result("crashes"), result("recall_postgres")
    labels = {
        "| one proxy on a folder": "1 proxy, folder",
        "| one proxy on a database": "1 proxy, database",
        "| two proxies on a database": "2 proxies, database",
        "| four proxies on a database": "4 proxies, database",
        "| four proxies, each session": "4 proxies, database, sticky",
    }
    for start, name in labels.items():
        yield TEAM, start, [team["proxies"][name][f"{what} cpu ms a request"] for what in ("proxy", "database")]
    commit, pickup, crowd = team["commits"]["lock and commit ms"], team["pickup"], team["crowd"]
    yield TEAM, "| lock and commit", [commit[name]["p50"] for name in ("folder, synced", "database, synced")]
    yield TEAM, "| first request of a session", [pickup["times, without the checkpoint"], pickup["checkpoint cpu ms"]]
    four, asked = crowd["4 proxies"], [crowd[name] for name in ("sessions", "streams at once", "requests")]
    names = ("errors", "texts of others", "fallbacks")
    yield TEAM, "| 1,000 sessions", [*asked, *(four[name] for name in names[:2]), crowd["different bytes"]]
    loaded = team["crowd, at the limits of ebb proxy, load above 20"]["4 proxies"]
    yield TEAM, "| the same at a load", [20, *(loaded[name] for name in names)]
    yield TEAM, "| connections |", [four["connections at most"]]
    yield TEAM, "| disk for a message", [four["bytes on disk a message"]]
    yield FAULTS, "  crashed as well", [crashes["postgres"]["crashes"][name] for name in ("server", "stop")]
    for start, name in {"| identifiers by name": "by_name", "| questions about": "memorybank en"}.items():
        arms = ("our index", "full text `simple`", "full text `english`")
        yield RECALL, start, [100 * found[f"database, {arm}"][name] for arm in arms]


def claims() -> Iterator[tuple[str, str, list[float]]]:
    for some in (of_tokens, of_replay, of_what_is_kept, of_size, of_speed, of_isolation, of_a_team):
        yield from some()


@pytest.mark.parametrize(
    ("page", "start", "values"), [pytest.param(*one, id=f"{one[0]}: {one[1]}") for one in claims()]
)
def test_a_figure_on_a_page_is_the_one_that_was_measured(page, start, values):
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.startswith(start)]

    assert [line for line in found if not missing(line, values)], f"{values} in {found}"


def test_a_policy_cheaper_than_the_default_keeps_less_and_one_that_keeps_more_costs_more():
    """The sentence under the table of all policies."""
    arms = results("replay_peers")["halves"]["report"]["arms"]
    ours = arms["default"]
    others = [arms[name] for name in ARMS.values() if name != "default"]

    assert not [one for one in others if one["bill"] <= ours["bill"] and one["available"] >= ours["available"]]
    assert not [one for one in others if one["bill"] <= ours["bill"] and one["in_context"] >= ours["in_context"]]
    assert ours["invalid"] == ours["over"] == 0


def test_solved_tasks_are_those_of_the_result():
    rows = result("tasks")["scripted"]["lengths"]["2"]
    names = ("default", "default-no-recall", "truncation", "masking", "langchain-summary-tuned", "harness-tiered-tuned")
    (line,) = [line for line in (ROOT / NUMBERS).read_text("utf-8").splitlines() if "benchmarks/tasks.py" in line]
    figures = [int(number) for number in re.findall(r"\b\d+\b", line.split("|")[2])]

    assert figures == [
        rows["default"]["solved"],
        rows["default"]["tasks"],
        *(rows[name]["solved"] for name in names[1:]),
    ]


@pytest.mark.parametrize(
    ("written", "value", "so"),
    [("0.59", 0.5891, True), ("0.58", 0.5891, False), ("1,202", 1202, True), ("1", 0.59, False), ("0", 0, True)],
)
def test_a_number_says_what_it_rounds_to(written, value, so):
    assert says(written, value) is so
