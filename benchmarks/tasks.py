"""Solved tasks, not only names: does a model still answer what it saw far back, and what did the conversation cost?

Each conversation (`task_conversations.py`) is the work of an agent in which six facts are early: a value in a file, an
error, a rule of the user, the output of a command, a value that changed later, and one that is nowhere. Each arm
(`task_arms.py`) sends every request of it, and the last one asks for a fact. The answer is random and must be exact.

    python benchmarks/tasks.py                       no model: could a perfect reader answer? Minutes
    python benchmarks/tasks.py --provider local      SmolLM2-135M on loopback (requirements/dev.txt)
    python benchmarks/tasks.py --provider anthropic --model claude-haiku-4-5      key in ANTHROPIC_API_KEY
    python benchmarks/tasks.py --provider openai --model gpt-5.1 --base-url URL   key in OPENAI_API_KEY

Only the questions are sent to a model; the agent's own calls are scripted. So tokens and dollars of a conversation are
simulated, as in `ebb replay`, while answers are real. Each question is asked first where its fact is a few messages
back: a task that the model cannot solve even then says nothing about what was removed, and is counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from task_arms import MISSING, PROGRAM, TOOL, Arm, arms
from task_conversations import NONE, Task, as_session, generate
from task_models import Api, Model, NoAnswer, Reader, Refused

from ebbtide.core.tool_calls import SEARCH_TOOL
from ebbtide.core.types import Usage
from ebbtide.prices import find_rates
from ebbtide.replay.provider import Provider
from ebbtide.replay.request_tracker import RequestTracker, answer_messages, request_messages
from ebbtide.replay.session import Body, ReplayCall, ReplaySession
from ebbtide.wire.recall_tools import recall_tools
from ebbtide.wire.turns import CallResult

ROUNDS = 4
"""How often a model may search for one question: as often as `ebbtide.wrap` lets it."""
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
ADDRESSES = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}
WIRES = {"scripted": "anthropic", "local": "openai_chat", "anthropic": "anthropic", "openai": "openai_chat"}
WINDOWS = {"scripted": 64_000, "local": 4_000, "anthropic": 64_000, "openai": 64_000}
PRICES = "claude-sonnet-4-5"
"""Prices of the models that have none."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One question to one arm."""

    kind: str
    is_solved: bool = False
    in_reach: bool = True
    is_refused: bool = False
    """A request was above the window before the question was answered."""
    calls: int = 0
    tokens: int = 0
    """Input of all requests, as the simulation counts it."""
    dollars: float = 0.0
    reported: Usage = field(default_factory=Usage)
    """What a real provider reported for the questions."""


class Client:
    """Sends the requests of one conversation, and adds up what a provider would charge."""

    def __init__(self, session: ReplaySession, window: int, run: Run) -> None:
        self.session, self.window, self.run = session, window, run
        self._tracker = RequestTracker(session.messages)
        self._provider = Provider(session.calls[0].model, is_explicit=session.wire.cache.is_explicit)

    def send(self, body: Body, at: float) -> Usage | None:
        """Return the usage of the input; None if the request is above the window, which ends the conversation."""
        self._tracker.update(request_messages(self.session.wire, body))
        tokens = self._tracker.tokens[-1]
        if tokens > self.window:
            self.run.is_refused = True
            return None
        usage = self._provider.send(self._tracker.prefix(body), at)
        self._charge(usage)
        return usage

    def ask_beside(self, body: Body, output: int, at: float) -> None:
        """Charge a call that an arm makes for itself, such as a summary."""
        tracker = RequestTracker(self.session.messages)
        tracker.update(request_messages(self.session.wire, body))
        self._charge(replace(self._provider.send(tracker.prefix(body), at), output=output))

    def _charge(self, usage: Usage) -> None:
        rates = find_rates(self.session.calls[0].model, prompt=usage.prompt) or find_rates(PRICES)
        assert rates is not None
        self.run.calls += 1
        self.run.tokens += usage.prompt
        self.run.dollars += rates.cost(usage)

    def charge_answer(self, messages: Sequence[Any]) -> int:
        rates = find_rates(self.session.calls[0].model) or find_rates(PRICES)
        assert rates is not None
        output = sum(map(self.session.messages.tokens, messages))
        self.run.dollars += output * rates.output / 1e6
        return output


def run_task(arm: Arm, session: ReplaySession, task: Task, model: Model, window: int) -> Run:
    """Send the whole conversation, then put its question to the model."""
    run = Run(kind=task.kind)
    client, contender = Client(session, window, run), arm.make(session)
    for call in session.calls:
        call = _with_hits(call, contender, session, task) if call.response is None and arm.recall == PROGRAM else call
        request = contender.send(call)
        for side_call in request.side_calls:
            client.ask_beside(side_call.body, side_call.output_tokens, call.at)
        run.is_refused |= request.does_not_fit
        usage = None if run.is_refused else client.send(request.body, call.at)
        if usage is None:
            return run
        if call.response is not None:
            output = client.charge_answer(answer_messages(session.wire, call.response))
            contender.record_usage(call, replace(usage, output=output))
    answer = _ask(request.body, client, model, task, contender if arm.recall == TOOL else None)
    run.is_solved = not run.is_refused and is_right(answer, task)
    return run


def _with_hits(call: ReplayCall, contender: Any, session: ReplaySession, task: Task) -> ReplayCall:
    """The question with what a search for it finds."""
    hits = contender.answer(SEARCH_TOOL, {"query": task.question})
    question = {"role": "user", "content": f"{hits}\n\n{task.question}"}
    messages = [*request_messages(session.wire, call.raw)[:-1], question]
    key = session.wire.list_key
    return replace(call, raw={**call.raw, key: messages}, unmarked={**call.unmarked, key: messages})


def _ask(body: Body, client: Client, model: Model, task: Task, recall: Any) -> str:
    """Ask until the model answers without a search; return its text."""
    wire, key = client.session.wire, client.session.wire.list_key
    at = client.session.calls[-1].at
    for left in reversed(range(ROUNDS + 1)):
        response = model.ask(body, task)
        client.run.reported = _plus(client.run.reported, wire.replies.usage(response))
        reply = wire.turns.read_reply(response)
        client.charge_answer(reply.messages)
        blocks = [block for message in reply.messages for block in wire.messages.split(message, key)]
        calls = {block.call_id: block for block in blocks if block.kind == "call"}
        if recall is None or not reply.calls or not left:
            return "\n".join(block.text for block in blocks if block.kind == "text")
        results = [
            CallResult(call=call, content=recall.answer(calls[call.id].name, calls[call.id].text))
            for call in reply.calls
        ]
        messages = [*request_messages(wire, body), *reply.messages, *wire.turns.write_turn(results, ())]
        body = {**body, key: messages}
        if client.send(body, at) is None:
            return ""
    return ""


def _plus(total: Usage, more: Usage | None) -> Usage:
    if more is None:
        return total
    names = ("input", "cache_read", "cache_write", "output")
    return Usage(**{name: getattr(total, name) + getattr(more, name) for name in names})


def is_right(answer: str, task: Task) -> bool:
    """Whether the answer contains the right value as a whole word, and no value of another fact."""

    def has(value: str) -> bool:
        return re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", answer) is not None

    return has(task.answer) and not any(map(has, task.wrong)) and (task.answer == NONE or not has(NONE))


# --- many -------------------------------------------------------------------------------------------------------------


def run_all(model: Model, options: argparse.Namespace, price_model: str) -> dict[str, dict[str, list[Run]]]:
    """Return the runs by length and arm. Stops at the time limit; what is not finished for all arms is left out."""
    chosen = {name: arm for name, arm in arms(options.window).items() if name in (options.arms or name).split(",")}
    ends = time.monotonic() + 60 * options.minutes
    runs: dict[str, dict[str, list[Run]]] = {}
    for seed in range(options.seeds):
        if time.monotonic() > ends:
            break
        reach = _control(model, options, price_model, seed)
        for length in options.lengths:
            rows: dict[str, list[Run]] = {}
            for name, arm in chosen.items():
                if rows and time.monotonic() > ends:
                    print(f"stopped after {options.minutes} minutes", file=sys.stderr)
                    return runs
                rows[name] = list(_runs(model, options, price_model, seed, length, arm, reach))
                solved = sum(run.is_solved for run in rows[name])
                print(f"seed {seed}, {length} windows, {name}: {solved} of {len(rows[name])}", file=sys.stderr)
            for name, row in rows.items():
                runs.setdefault(f"{length:g}", {}).setdefault(name, []).extend(row)
    return runs


def _control(model: Model, options: argparse.Namespace, price_model: str, seed: int) -> Mapping[str, bool]:
    """Which tasks the model solves if the facts are a few messages back."""
    short = argparse.Namespace(**{**vars(options), "result_tokens": 60})
    raw = arms(options.window)["raw"]
    runs = list(_runs(model, short, price_model, seed, 0, raw, {}))
    print(f"seed {seed}, control: {sum(run.is_solved for run in runs)} of {len(runs)}", file=sys.stderr)
    return {run.kind: run.is_solved for run in runs}


def _runs(
    model: Model,
    options: argparse.Namespace,
    price_model: str,
    seed: int,
    length: float,
    arm: Arm,
    reach: Mapping[str, bool],
) -> Iterator[Run]:
    tokens = int(length * options.window)
    conversation = generate(seed, tokens=tokens, result_tokens=options.result_tokens)
    tools = recall_tools(model.wire) if arm.recall == TOOL else []
    for task in conversation.tasks:
        session = as_session(
            conversation, task.question, wire=model.wire, model=price_model,
            reply_tokens=min(8_000, options.window // 8), more_tools=tools,
        )  # fmt: skip
        try:
            run = run_task(arm, session, task, model, options.window)
        except Refused as error:
            print(f"refused: {error}", file=sys.stderr)
            run = Run(kind=task.kind, is_refused=True)
        except NoAnswer as error:
            print(f"no answer: {error}", file=sys.stderr)
            run = Run(kind=task.kind)
        run.in_reach = reach.get(task.kind, True)
        yield run


def figures(runs: Sequence[Run]) -> dict[str, Any]:
    reachable = [run for run in runs if run.in_reach]
    kinds = list(dict.fromkeys(run.kind for run in runs))
    usage = Usage()
    for run in runs:
        usage = _plus(usage, run.reported)
    return {
        "tasks": len(runs),
        "solved": sum(run.is_solved for run in runs),
        "in_reach": len(reachable),
        "solved_in_reach": sum(run.is_solved for run in reachable),
        "refused": sum(run.is_refused for run in runs),
        "calls": round(statistics.mean(run.calls for run in runs), 1),
        "tokens": round(statistics.mean(run.tokens for run in runs)),
        "dollars": round(statistics.mean(run.dollars for run in runs), 4),
        "kinds": {kind: sum(run.is_solved for run in runs if run.kind == kind) for kind in kinds},
        "reported": {"input": usage.prompt, "cached": usage.cache_read, "output": usage.output},
    }


def table(lengths: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    lines = []
    for length, rows in lengths.items():
        lines += [f"\nConversations of {length} windows; calls, tokens and dollars are means of one conversation:"]
        lines += [f"{'':<32} solved  in reach  refused  calls    tokens  dollars  by kind"]
        for name, row in rows.items():
            kinds = " ".join(f"{kind} {count}" for kind, count in row["kinds"].items())
            reach = f"{row['solved_in_reach']}/{row['in_reach']}"
            lines.append(
                f"{name:<32} {row['solved']:>3}/{row['tasks']:<3} {reach:>8} {row['refused']:>8} {row['calls']:>6}"
                f" {row['tokens']:>9,} {row['dollars']:>8.4f}  {kinds}"
            )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    options.window = options.window or WINDOWS[options.provider]
    options.result_tokens = options.result_tokens or max(250, options.window // 60)
    if MISSING:
        print(f"without the packages of requirements/bench.txt: {MISSING}", file=sys.stderr)
    with ExitStack() as stack:
        try:
            model = _model(options, stack)
        except LookupError as error:
            print(f"tasks: {error}", file=sys.stderr)
            return 2
        runs = run_all(model, options, options.model or PRICES)
    lengths = {length: {name: figures(row) for name, row in rows.items()} for length, rows in runs.items()}
    document = {
        "provider": options.provider,
        "model": options.model or {"scripted": "a perfect reader", "local": "SmolLM2-135M-Instruct"}[options.provider],
        "prices": options.model or PRICES,
        "simulated": "tokens and dollars; `reported` is what the provider reported for the questions alone",
        "window": options.window,
        "result_tokens": options.result_tokens,
        "seeds": options.seeds,
        "lengths": lengths,
    }
    print(json.dumps(document, indent=1) if options.json else table(lengths))
    return 0 if lengths else 1


def _model(options: argparse.Namespace, stack: ExitStack) -> Model:
    if options.provider == "scripted":
        return Reader()
    wire = WIRES[options.provider]
    if options.provider == "local":
        return Api(wire, _local_server(options.window, stack), "smollm2", answer_tokens=32)
    name = KEYS[options.provider]
    if not options.model:
        raise LookupError(f"say which model, with --model: --provider {options.provider} has many")
    key = os.environ.get(name, "")
    if not key and not options.base_url:
        raise LookupError(f"{name} is not set in the environment")
    return Api(wire, options.base_url or ADDRESSES[options.provider], options.model, key)


def _local_server(window: int, stack: ExitStack) -> str:
    # The tests' folder replaces this one on the path, because a file here has the name of a package there.
    here, tests = str(Path(__file__).parent), str(Path(__file__).resolve().parents[1] / "tests")
    sys.path[:] = [tests, *(path for path in sys.path if path != here)]
    from local_model.model_server import missing, served  # noqa: PLC0415

    if absent := missing():
        raise LookupError(f"not installed: {absent} (requirements/dev.txt has it)")
    # Our count decides what is above the window, for all arms alike. The model's own window is 8,192.
    return stack.enter_context(served(max(8_192, window * 3 // 2))).address


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=tuple(WIRES), default="scripted")
    parser.add_argument("--model", default="", help="the provider's model; its prices are used")
    parser.add_argument("--base-url", default="", help="another address that speaks the provider's API")
    parser.add_argument("--window", type=int, default=0, help=f"tokens; by provider {WINDOWS}")
    parser.add_argument("--result-tokens", type=int, default=0, help="size of a tool result")
    parser.add_argument("--lengths", type=_lengths, default=(0.6, 2.0), help="in windows, such as 0.6,2")
    parser.add_argument("--seeds", type=int, default=3, help="conversations; each has six questions")
    parser.add_argument("--arms", default="", help="only these, such as raw,default")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long, and show what is finished")
    parser.add_argument("--json", action="store_true")
    return parser


def _lengths(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
