"""A real model for the tests here, or a visible skip. The conversation runs once for all tests."""

import fcntl
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import ebbtide
from ebbtide import Context
from local_model.model_server import PATIENCE, missing, served
from local_model.story import Turn, story
from local_model.story_run import Body, Step, Summarizer, walk

WINDOW = 2_304


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedConversation:
    """The conversation when it is over."""

    window: int
    turns: Sequence[Turn]
    steps: Sequence[Step]
    asked: Sequence[Body]
    answered: Sequence[Body]


@pytest.fixture(scope="session")
def conversation(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> FinishedConversation:
    """Workers share it: a second one waits, since two models on two cores take longer than one after the other."""
    if absent := missing():
        pytest.skip(f"no local model: {absent} not installed (requirements/dev.txt has it)")
    if worker_id == "master":
        return _run_conversation()
    shared: Path = tmp_path_factory.getbasetemp().parent
    with (shared / "local_model.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = shared / "local_model.pickle"
        if not kept.exists():
            kept.write_bytes(pickle.dumps(_run_conversation()))
        data: FinishedConversation = pickle.loads(kept.read_bytes())
        return data


def _run_conversation() -> FinishedConversation:
    with served(WINDOW) as model:
        turns, summaries = tuple(story(10, lines=9)), Summarizer(model)
        context = Context(window=WINDOW, summarizer=ebbtide.Summarizer(summaries, timeout=PATIENCE))
        steps = tuple(walk(model, context, turns))
    return FinishedConversation(
        window=WINDOW, turns=turns, steps=steps, asked=summaries.asked, answered=summaries.answered
    )
