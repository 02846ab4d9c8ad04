"""Static embeddings from the wheel of wordllama; skipped where the extra is not installed."""

import importlib.util
import subprocess
import sys

import pytest

from ebbtide.recall.embeddings import StaticEmbeddings
from ebbtide.recall.search import RecallSearch
from ebbtide.store import PrivateLog

installed = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("wordllama", "numpy", "tokenizers")),
    reason="the extra `embeddings` is not installed",
)


@installed
def test_a_word_is_nearer_to_its_synonym_than_to_a_stranger():
    meaning = StaticEmbeddings()

    near, far = meaning.similarities("restart", meaning.embed(["reboot", "banana"]))

    assert near > 0 > far


@installed
@pytest.mark.parametrize("text", ["", "\ud800", "连接", "x" * 9000])
def test_every_text_has_a_vector_of_the_same_length(text):
    (vector,) = StaticEmbeddings().embed([text])

    assert len(vector) == 512


@installed
def test_recall_finds_what_means_the_same():
    log = PrivateLog("s", now=1.0)
    for n, text in enumerate(["reboot the machine", "peel the banana"]):
        log.commit([{"type": "user", "uuid": f"u{n}", "message": {"role": "user", "content": text}}], at=1.0)

    assert RecallSearch(log).search("restart server") == ()
    assert RecallSearch(log, embeddings=StaticEmbeddings()).search("restart server")[0].snippet == "reboot the machine"


def test_without_its_packages_the_extra_is_named():
    code = (
        "import importlib.util, sys\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'wordllama' else real(name, *rest)\n"
        "from ebbtide.fronts.cli.main import main\n"
        "sys.exit(main(['recall', 'x', '--meaning']))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert told.returncode == 2
    assert "pip install 'ebbtide[embeddings]'" in told.stderr
