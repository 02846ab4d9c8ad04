"""Signatures and seals that only this upstream issues and anybody holding a body can verify (A35, A36, A63, R6).

A thinking block's signature names the model, what was thought, and the run of units before it. Every model refuses a
signature it did not make; preserved-thinking models also refuse one whose prefix changed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator

from upstream import bedrock_rules, gemini_rules
from upstream.anthropic_request import THINKING, Block, read
from upstream.anthropic_thinking import open_loop
from upstream.finding import Body, Refusal, dicts, text_of
from upstream.models import model
from upstream.prefix import Unit, chain, message_unit, units

ORGANISATION = "org-ebb"
MODIFIED = (
    "{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
INVALID = "{path}: Invalid `signature` in `thinking` block"
BOUND = "{path}: Invalid `signature` in `thinking` block. The block is bound to a different conversation"
UNVERIFIED = "The encrypted content for item {id} could not be verified."


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def sign(model_name: str, thought: str, before: str) -> str:
    """`before` is the chained digest of all units before the block; see `bound_to`."""
    claim = f"{model_name}.{_digest(thought)}.{_digest(before)}"
    return f"EbbSig.{claim}.{_digest(claim)}"


def redact(model_name: str, before: str) -> str:
    return f"EbbRed.{model_name}.{_digest(before)}"


def bound_to(body: Body, wire: str = "anthropic") -> str:
    """The digest to which the next block of the answer to this body is bound."""
    return extend("", units(wire, body))


def extend(digest: str, run: list[Unit]) -> str:
    for unit in run:
        digest = chain(digest, unit)
    return digest


def seal(text: str, organisation: str = ORGANISATION) -> str:
    """Encrypted reasoning of the Responses wire."""
    return f"EbbEnc.{organisation}.{_digest(organisation + text)}"


def sign_part(model_name: str, words: str) -> str:
    """The thought signature of one part on Gemini's wire, in base64 as the API has it."""
    claim = f"{model_name}/{_digest(words)}"
    return base64.b64encode(f"EbbThought/{claim}/{_digest(claim)}".encode()).decode()


def call_words(call: Body) -> str:
    """What the signature of a function call is bound to."""
    return json.dumps([call.get("name"), call.get("args")], sort_keys=True)


def _parts(body: Body) -> Iterator[Refusal]:
    """G6: a signature stands on the part that it was issued for. The placeholder stands on any call."""
    for at, content in enumerate(gemini_rules.contents(body)):
        for n, part in enumerate(gemini_rules.parts(content)):
            signature, call = gemini_rules.value(part, "thoughtSignature"), gemini_rules.value(part, "functionCall")
            if signature is None or (call is not None and signature == SKIPPED):
                continue
            words = text_of(part.get("text")) if call is None else call_words(call)
            issuer, _, proof = base64.b64decode(signature).decode().removeprefix("EbbThought/").rpartition("/")
            if issuer.rpartition("/")[2] != _digest(words) or proof != _digest(issuer):
                yield Refusal("G6", f"contents[{at}].parts[{n}]", "Thought signature is not valid.")


SKIPPED = "skip_thought_signature_validator"


def refusals(wire: str, body: Body) -> list[Refusal]:
    """What the issuer sees and a reader of the rules cannot."""
    if wire == "anthropic":
        return list(_thinking(body))
    if wire == "gemini":
        return list(_parts(body))
    if wire == "bedrock_converse":
        return list(_reasoning(body))
    return list(_sealed(body)) if wire == "openai_responses" else []


def trusting(wire: str, body: Body) -> list[Refusal]:
    """For recorded sessions, whose signatures are another issuer's."""
    return []


def _sealed(body: Body) -> Iterator[Refusal]:
    for at, item in enumerate(dicts(body.get("input"))):
        cipher = item.get("encrypted_content")
        if isinstance(cipher, str) and not cipher.startswith(f"EbbEnc.{ORGANISATION}."):
            yield Refusal("R6", f"input[{at}]", UNVERIFIED.format(id=item.get("id")))


def _thinking(body: Body) -> Iterator[Refusal]:
    request = read(body)
    latest = max((message.index for message in request.messages if message.role == "assistant"), default=-1)
    digest = extend("", [unit for unit in units("anthropic", body) if unit.message < 0])
    for message in request.messages:
        for at, block in enumerate(message.blocks):
            if block.type == "thinking":
                yield from _verified(body, block, digest, message.index == latest)
            digest = chain(digest, message_unit(message.role, message.index, at, block.data))


def _reasoning(body: Body) -> Iterator[Refusal]:
    """Claude's thinking on Bedrock."""
    name, run = bedrock_rules.model_of(body), units("bedrock_converse", body)
    digests, digest = dict[tuple[int, int], str](), ""
    for unit in run:
        digests[unit.message, unit.block] = digest
        digest = chain(digest, unit)
    for at, message in enumerate(bedrock_rules.messages(body)):
        for n, block in enumerate(bedrock_rules.blocks(message)):
            text = (block.get("reasoningContent") or {}).get("reasoningText")
            if text is None or "claude" not in name:
                continue
            path = f"messages.{at}.content.{n}"
            issuer, thought_was, before = _claim(text_of(text.get("signature")))
            if issuer != name or thought_was != _digest(text_of(text.get("text"))):
                yield Refusal("A36", path, INVALID.format(path=path))
            elif model(name).preserved_thinking and before != _digest(digests[at, n]):
                yield Refusal("A63", path, BOUND.format(path=path))


def _verified(body: Body, block: Block, digest: str, latest: bool) -> Iterator[Refusal]:
    name, thought = text_of(body.get("model")), text_of(block.data.get("thinking"))
    issuer, thought_was, before = _claim(text_of(block.data.get("signature")))
    if model(issuer).family == "fable" and issuer != name:
        return  # Dropped without a word (A44).
    if issuer != name:
        yield Refusal("A36", block.path, INVALID.format(path=block.path))
    elif thought_was != _digest(thought):
        rule, text = ("A35", MODIFIED) if latest else ("A36", INVALID)
        yield Refusal(rule, block.path, text.format(path=block.path))
    elif model(name).preserved_thinking and before != _digest(digest):
        yield Refusal("A63", block.path, BOUND.format(path=block.path))


def _claim(signature: str) -> tuple[str | None, str, str]:
    """Model, digest of the thought, digest of what came before; nobody's model where we did not sign it."""
    head, _, proof = signature.rpartition(".")
    claim = head.removeprefix("EbbSig.")
    if claim == head or claim.count(".") < 2 or _digest(claim) != proof:
        return None, "", ""
    # A model's name may contain dots.
    issuer, thought, before = claim.rsplit(".", 2)
    return issuer, thought, before


def removed(body: Body, issued: dict[str, list[Body]]) -> list[Refusal]:
    """Thinking that was issued with a call of the open loop and no longer stands there as it did (A35, A39, A40).

    With thinking switched off the loop may go on without it. Where thinking is bound to all before it, an edit must take
    out whole what comes after (A63's own remedy), so there a message may stand without any of its thinking.
    """
    request = read(body)
    found: list[Refusal] = []
    for message in open_loop(request) if request.thinking != "disabled" else ():
        kept = [block.data for block in message.of(*THINKING)]
        if not kept and request.model.preserved_thinking:
            continue
        expected = [issued.get(text_of(use.data.get("id")), kept) for use in message.of("tool_use")]
        if any(kept != each for each in expected):
            path = f"{message.path}.content.0"
            found.append(Refusal("A35", path, MODIFIED.format(path=path)))
    return found
