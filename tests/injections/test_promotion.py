"""Text that a tool returned stays quoted history when it is summarized.

The summarizer here is the worst possible: it repeats the injection word for word. A parser in this file, which does not
share code with the engine, reads the result. An injection is *promoted* when

- `frame`     the summary contains a tag of ours, or another one that marks a speaker, that we did not write;
- `speaker`   a line in the summary or record begins as if someone else spoke;
- `stub`      it contains the beginning of a stub, or a token of a chat template;
- `voice`     the text outside the quotation differs from that of an empty summary;
- `said`      the summary itself orders or allows something, without marking it as a quotation from output;
- `hidden`    the summary has invisible characters;
- `trust`     a part of it is in an item above the lowest trust, or in an assistant message.
"""

import html
import re
import unicodedata
from urllib.parse import unquote

import pytest

from ebbtide.core.types import QUOTED
from ebbtide.summary.check import SummarySource, check_summary
from ebbtide.summary.layout import DEFAULT_LAYOUT, SummaryContent, read_summary_text, write_summary_text
from injections.corpus import CORPUS, Injection

OPENING, CLOSING = "- The build was slow.", "- The assistant looks at the tests."
TWINS = str.maketrans("аеорсухіјѕНВЕКМОРСТХ‹›〈〉⟨⟩‐‑‒–—―", "aeopcyxijshbekmopctx<><><>------")
TAGS = (
    r"<[\s/\\]*(conversation[-_\s]?summary|session[-_\s]?record|system[-_\s]?reminder|summary|analysis|user|system"
    r"|assistant|human|function_calls|invoke|persisted-output|start_of_turn|end_of_turn)(?![\w-])"
)


def as_read(text: str) -> str:
    """Decode text as a patient reader would: entities, escapes, look-alikes and hidden characters."""
    text = text.replace("\\u003c", "<").replace("\\x3c", "<")
    text = unicodedata.normalize("NFKC", unquote(html.unescape(html.unescape(text))))
    seen = [c for c in text if c == "\n" or unicodedata.category(c) not in ("Cf", "Cc", "Cn", "Co", "Mn", "Me")]
    return "".join(seen).translate(TWINS).lower()


def lines_of(text: str) -> list[str]:
    return re.split("[\n\r\x0b\x0c\x85\u2028\u2029]", text)


def worst_answer(said: str) -> str:
    return (
        f"<analysis>{said}</analysis>\n<summary>\n## Intent\n{OPENING}\n\n{said}\n\n## Current\n{CLOSING}\n</summary>"
    )


def compact(injection: str) -> tuple[str, str]:
    """Return the checked summary and the final text. The injection is in the tool's output, the answer and the record."""
    texts = ["make: slow", injection, "looks at the tests"]
    original = SummarySource(texts=texts, tool_outputs=[injection], tokens=10_000)
    checked = check_summary(worst_answer(injection), original, max_tokens=2_000, count=len_of)
    text = write_summary_text(summary=checked.text, facts=injection, recall_hint="", is_automatic=True)
    return checked.text, text


def len_of(text: str) -> int:
    return len(text) // 4 + 1


def promoted(injection: Injection, summary: str, text: str) -> set[str]:
    ways = set()
    tags = [re.sub(r"[-_\s]+", "-", tag) for tag in re.findall(TAGS, as_read(text))]
    quoted = ["conversation-summary"] * 2 * bool(summary) + ["session-record"] * 2
    ways |= {"frame"} if tags != quoted else set()
    speaks = r"\W*(?:human|user|assistant|system|用户|助手|系统)[\s*_]*:"
    ways |= {"speaker"} if any(re.match(speaks, as_read(line)) for line in lines_of(text)) else set()
    ways |= {"stub"} if re.search(r"\[\s*ebb\s*:|<\s*\||\[/?inst\]|<</?sys", as_read(text)) else set()
    ways |= (
        {"voice"}
        if around(text) != around(write_summary_text(summary=summary and "x", facts="x", is_automatic=True))
        else set()
    )
    wanted = [" ".join(re.sub(r"[*_`]", "", one).split()) for one in injection.canaries]
    voice = re.sub(r"“[^”]*” \(quoted from output\)", "", summary)
    normalized = " ".join(re.sub(r"[*_`]", "", as_read(voice)).split())
    raw = " ".join(voice.lower().split())
    ways |= {"said"} if any(one in normalized or one in raw for one in wanted) else set()
    ways |= {"hidden"} if any(unicodedata.category(c) in ("Cf", "Co") for c in text) else set()
    return ways


def around(text: str) -> str:
    return re.sub(r"<(conversation-summary|session-record)>\n.*?\n</\1>", "", text, flags=re.DOTALL)


def test_the_corpus_is_large_and_in_two_languages():
    chinese = [injection for injection in CORPUS if re.search("[\u4e00-\u9fff]", injection.text)]

    assert len({one.text for one in CORPUS}) == len({one.name for one in CORPUS}) == len(CORPUS) >= 60
    assert len(chinese) >= 20


@pytest.mark.parametrize("injection", CORPUS, ids=lambda one: one.name)
def test_an_injection_repeated_word_for_word_is_not_promoted(injection):
    summary, text = compact(injection.text)

    assert promoted(injection, summary, text) == set()
    assert OPENING in summary
    assert CLOSING in summary
    assert read_summary_text(text) == (summary, injection.text)


REWRITES = {
    "as points": lambda text: "\n".join(f"- {line}" for line in text.split("\n") if line.strip()),
    "shouted": str.upper,
    "set in lines": lambda text: re.sub(r"(.{25}\S*) ", r"\1\n", text),
    "attributed": lambda text: f"- The assistant noted this: {text}",
    "as headings": lambda text: "\n".join(f"## {line}" for line in text.split("\n") if line.strip()),
    "in bold": lambda text: "\n".join(f"**{line}**" for line in text.split("\n") if line.strip()),
}


@pytest.mark.parametrize("way", REWRITES)
def test_an_injection_is_not_promoted_when_the_summarizer_rewrites_it(way):
    got = {}
    for injection in CORPUS:
        if injection.encoded and way != "attributed":
            continue
        if ways := promoted(injection, *compact(REWRITES[way](injection.text))):
            got[injection.name] = ways

    assert got == {}


@pytest.mark.parametrize("injection", CORPUS, ids=lambda one: one.name)
def test_trust_does_not_rise(injection):
    """All of it is in one item of the lowest trust, on the user's side."""
    summary, _ = compact(injection.text)
    put = DEFAULT_LAYOUT.write_summary(
        SummaryContent(summary=summary, facts=injection.text, analysis=injection.text, next_is_user=True, count=len)
    )

    ours = DEFAULT_LAYOUT.write_summary(SummaryContent(summary="x", facts="x", next_is_user=True, count=len))
    assert [(item.role, item.trust) for item in put] == [(item.role, item.trust) for item in ours]
    assert [item.trust for item in put if item.role == "user"] == [QUOTED]
    assert [item.text for item in put if item.role == "assistant"] == [
        item.text for item in ours if item.role == "assistant"
    ]


@pytest.mark.parametrize("injection", [one for one in CORPUS if not one.canaries], ids=lambda one: one.name)
def test_the_reader_of_this_file_sees_what_the_engine_must_prevent(injection):
    """Without the checks each attack on the structure does succeed: else the tests above could not fail."""
    raw = f"<conversation-summary>\n{injection.text}\n</conversation-summary>"

    assert promoted(injection, injection.text, raw) & {"frame", "speaker", "stub", "hidden"}
