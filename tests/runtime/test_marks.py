"""Cache breakpoints where the provider needs them and the client sets none."""

import pytest

import ebbtide
from compaction import compaction_sessions
from ebbtide.replay.contenders import EngineContender, RawContender
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from replay.recordings import MODEL, assistant, growing_session, score, user
from runtime.sessions import Clock, body, loop

LONG = "The harbour office keeps these rules. " * 600
MARK = {"type": "ephemeral"}
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("Read", "Edit")]


class BadRequestError(Exception):
    """A refusal as SDKs raise it."""

    status_code = 400


def prepare(request, **options):
    return ebbtide.Context(window=200_000, clock=Clock(), **options).prepare(request).body


def marked(request):
    """Where the breakpoints are: `tools.1`, `system.0`, `messages.4.0`, or `end` for one of the whole request."""
    system = request.get("system")
    places = [f"tools.{n}" for n, tool in enumerate(request.get("tools", ())) if "cache_control" in tool]
    blocks = enumerate(system if isinstance(system, list) else ())
    places += [f"system.{n}" for n, block in blocks if "cache_control" in block]
    for n, message in enumerate(request["messages"]):
        content = message["content"] if isinstance(message["content"], list) else ()
        places += [f"messages.{n}.{at}" for at, block in enumerate(content) if "cache_control" in block]
    return [*places, *(["end"] if "cache_control" in request else [])]


def test_a_request_without_breakpoints_gets_them_where_the_next_one_reads_them():
    request = body([*loop(4), user("and now?")], system=LONG, tools=TOOLS)
    sent = prepare(request)

    assert marked(sent)[0] == "system.0"
    assert marked(sent)[-1] == "messages.8.1"
    assert len(marked(sent)) <= 4
    assert sent["system"] == [{"type": "text", "text": LONG, "cache_control": {**MARK, "ttl": "1h"}}]
    assert not violations(WIRES["anthropic"], sent)
    assert marked(request) == []


def test_a_request_too_short_to_be_cached_is_sent_as_it_is():
    request = body([user("hi")])

    assert prepare(request) is request


@pytest.mark.parametrize(
    "own",
    [
        {"system": [{"type": "text", "text": LONG, "cache_control": MARK}]},
        {"tools": [{**TOOLS[0], "cache_control": MARK}, TOOLS[1]]},
        {"cache_control": MARK},
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": LONG, "cache_control": MARK}]},
                *loop(9)[1:],
            ]
        },
    ],
    ids=["system", "a tool", "the whole request", "an old message"],
)
def test_a_client_that_sets_any_breakpoint_keeps_its_own_and_gets_no_other(own):
    request = {**body(loop(9), system=LONG), **own}

    assert prepare(request) is request


@pytest.mark.parametrize("model", ["gpt-oss-120b", "my-local-model"])
def test_a_model_whose_provider_needs_no_breakpoints_gets_none(model):
    request = {**body(loop(9), system=LONG), "model": model}

    assert prepare(request) is request


def test_one_setting_turns_it_off_and_fit_never_adds_any():
    request = body(loop(9), system=LONG)

    assert prepare(request, marks=False) is request
    assert ebbtide.fit(request).body is request


def lifetimes(request):
    """What is kept for an hour, of all that is marked."""
    blocks = [(f"system.{n}", block) for n, block in enumerate(request["system"])]
    for n, message in enumerate(request["messages"]):
        content = message["content"] if isinstance(message["content"], list) else ()
        blocks += [(f"messages.{n}", block) for block in content]
    return [place for place, block in blocks if block.get("cache_control", {}).get("ttl") == "1h"]


def grow(context, clock, calls, pauses=(), usage=None):
    """The requests of a growing loop, with a pause of 15 minutes before some."""
    for n in calls:
        clock.tick(900 if n in pauses else 10)
        request = context.prepare(body(loop(n), system=[{"type": "text", "text": LONG}])).body
        assert not violations(WIRES["anthropic"], request)
        if usage is not None:
            context.record({"content": [], "usage": usage})
        yield request


def test_the_system_prompt_is_kept_for_an_hour_and_what_stood_through_a_batch_since_the_next_pause():
    clock = Clock()
    context = ebbtide.Context(window=30_000, clock=clock)
    sent = list(grow(context, clock, range(1, 40), pauses=(18, 30)))
    changes = [n for n in range(1, 40) if n == 1 or lifetimes(sent[n - 1]) != lifetimes(sent[n - 2])]

    assert context.edits()
    # One request has both places, so that the provider finds the first when it writes up to the second.
    assert changes == [1, 18, 30, 31]
    assert lifetimes(sent[0]) == ["system.0"]
    assert [place.partition(".")[0] for place in lifetimes(sent[17])] == ["system", "messages"]
    assert all(len(marked(request)) <= 4 for request in sent)


def test_what_is_cached_for_five_minutes_is_not_asked_for_an_hour():
    """A process that resumes a session whose requests had no such breakpoint."""
    clock, store = Clock(), MemoryStore()
    list(grow(ebbtide.Context(window=200_000, clock=clock, store=store, policy="claude-code"), clock, range(1, 4)))
    sent = list(grow(ebbtide.Context(window=200_000, clock=clock, store=store), clock, range(4, 9), pauses=(7,)))

    assert [lifetimes(request) for request in sent] == [[], [], [], ["system.0"], ["system.0"]]


def test_a_provider_that_writes_nothing_for_an_hour_is_not_asked_again():
    clock = Clock()
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 9_000, "output_tokens": 1}
    sent = list(grow(ebbtide.Context(window=200_000, clock=clock), clock, range(1, 8), pauses=(3, 5), usage=usage))

    assert lifetimes(sent[0]) == ["system.0"]
    assert not any(lifetimes(request) for request in [*sent[2:4], *sent[4:]])


def test_a_refused_lifetime_is_left_out_and_not_asked_for_again():
    """A gateway that does not know `ttl`."""
    clock, refusal = Clock(), BadRequestError("system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted")
    context = ebbtide.Context(window=200_000, clock=clock)
    ready = context.prepare(body(loop(4), system=[{"type": "text", "text": LONG}]))

    assert ready.can_retry(refusal)
    again = context.overflowed(refusal)
    assert not lifetimes(again.body)
    assert marked(again.body) == marked(ready.body)
    assert not again.can_retry(refusal)
    with pytest.raises(BadRequestError):
        context.overflowed(refusal)
    clock.tick(900)
    assert not lifetimes(context.prepare(body(loop(5), system=[{"type": "text", "text": LONG}])).body)


def test_after_a_pause_what_is_kept_for_an_hour_counts_as_cached_and_the_rest_as_cold():
    """The first pause expires everything but the system prompt; from then on what stood is kept for an hour."""
    clock = Clock()
    context = ebbtide.Context(window=30_000, clock=clock)
    list(grow(context, clock, range(1, 20), pauses=(18,)))
    (kept,) = (mark for mark in context._session.log.state.sent[-1].hour if mark >= 0)
    clock.tick(900)
    report = context.prepare(body(loop(20), system=[{"type": "text", "text": LONG}])).report
    plan_input = context._session.last.plan_input

    assert plan_input.cached_entries == kept + 1
    assert plan_input.is_cache_cold
    assert 0 < report.warm < report.tokens_before


def test_pauses_of_hours_stop_it():
    clock = Clock()
    context = ebbtide.Context(window=200_000, clock=clock)
    for n in range(1, 30):
        clock.tick(8_000)
        request = context.prepare(body(loop(n), system=[{"type": "text", "text": LONG}])).body

    assert not lifetimes(request)


def test_a_preset_asks_for_what_its_original_does():
    sent = prepare(body(loop(9), system=[{"type": "text", "text": LONG}]), policy="claude-code")

    assert marked(sent)
    assert not lifetimes(sent)


def test_a_summary_is_asked_for_with_the_breakpoints_of_the_request():
    summarizer = compaction_sessions.RecordingSummarizer()
    context = compaction_sessions.context(summarizer=summarizer, marks=True)
    messages = [{**message} for message in compaction_sessions.talk(30)]
    messages[0]["content"] += LONG[:8_000]
    for _ in compaction_sessions.walk(context, messages):
        pass

    assert summarizer.requests
    assert all(marked(request) for request in summarizer.requests)


def test_a_hundred_calls_without_breakpoints_are_billed_like_those_of_a_client_that_sets_them():
    messages = [part for n in range(100) for part in (user(f"{n} {LONG[:2_000]}"), assistant(f"step {n}"))]
    session = growing_session(*messages, overhead=0)
    raw = score(session, RawContender(session), recalls=False)
    ours, unmarked = (
        score(session, EngineContender(session, "default", 10**9, is_library=True, marks=on), recalls=False)
        for on in (True, False)
    )

    assert MODEL.startswith("claude")
    assert ours.bill == pytest.approx(raw.bill, rel=0.02)
    assert unmarked.bill > 5 * raw.bill


def raised(context, messages, **own):
    system = [{"type": "text", "text": LONG, "cache_control": MARK}]
    tools = [TOOLS[0], {**TOOLS[1], "cache_control": MARK}]
    return context.prepare({**body(messages, system=system, tools=tools), "cache_control": MARK, **own}).body


def test_a_clients_breakpoints_on_system_prompt_and_tools_ask_for_an_hour_if_wanted():
    clock = Clock()
    context = ebbtide.Context(window=200_000, clock=clock, marks=False, cache=ebbtide.Cache(raise_lifetimes=True))
    first, second = raised(context, loop(3)), raised(context, loop(4))

    for sent in (first, second):
        assert lifetimes(sent) == ["system.0"]
        assert sent["tools"][1]["cache_control"] == {**MARK, "ttl": "1h"}
        assert sent["cache_control"] == MARK
        assert not violations(WIRES["anthropic"], sent)


def test_lifetimes_that_a_client_chose_are_left_alone_wherever_they_are():
    hour = {**MARK, "ttl": "1h"}
    block = {"type": "text", "text": LONG, "cache_control": {**MARK, "ttl": "5m"}}
    system = [{"type": "text", "text": LONG, "cache_control": MARK}]
    requests = [
        {**body(loop(3), system=[{**system[0], "cache_control": hour}, *system])},
        {**body([{"role": "user", "content": [block]}, *loop(3)[1:]], system=system)},
        {**body(loop(3), system=system), "cache_control": {**MARK, "ttl": "5m"}},
    ]
    for request in requests:
        assert prepare(request, marks=False, cache=ebbtide.Cache(raise_lifetimes=True)) is request


def test_a_system_prompt_that_is_warm_for_five_minutes_is_not_raised():
    clock, store = Clock(), MemoryStore()
    raised(ebbtide.Context(window=200_000, clock=clock, marks=False, store=store), loop(3))
    context = ebbtide.Context(
        window=200_000, clock=clock, marks=False, store=store, cache=ebbtide.Cache(raise_lifetimes=True)
    )
    clock.tick(100)
    warm = raised(context, loop(4))
    clock.tick(900)

    assert not lifetimes(warm)
    assert lifetimes(raised(context, loop(5))) == ["system.0"]


def keys(model="gpt-5.1", session="s", messages=None, **options):
    wire = None if model.startswith(("claude", "gemini")) else "openai_chat"
    context = ebbtide.Context(window=200_000, session=session, clock=Clock(), wire=wire, **options)
    request = {**body(messages or [user("Find it.")]), "model": model}
    return {name: value for name, value in context.prepare(request).body.items() if name.startswith("prompt_cache")}


def test_each_session_of_openais_models_has_a_cache_key_of_its_own():
    (key,) = keys().values()

    assert keys(messages=[user("Find it."), assistant("Here."), user("And that?")]) == {"prompt_cache_key": key}
    assert len(key) <= 64
    assert "s" not in key
    others = [keys(session="t"), keys(project="p"), keys(messages=[user("Find that.")])]
    assert len({key, *(other["prompt_cache_key"] for other in others)}) == 4


@pytest.mark.parametrize("model", ["claude-sonnet-5", "gemini-3-pro", "openai/gpt-5", "gpt-oss-120b", "my-local-model"])
def test_other_models_get_no_cache_key(model):
    assert keys(model) == {}


def test_a_day_is_asked_for_on_models_that_list_it():
    day = ebbtide.Cache(retention="24h")

    assert keys("gpt-4.1-2025-04-14", cache=day)["prompt_cache_retention"] == "24h"
    assert "prompt_cache_retention" not in keys("gpt-5-mini", cache=day)
    assert "prompt_cache_retention" not in keys("gpt-5.6", cache=day)
    assert "prompt_cache_retention" not in keys("gpt-5.1")


def test_a_client_keeps_its_own_key_and_one_setting_turns_ours_off():
    request = {**body([user("Find it.")]), "model": "gpt-5", "prompt_cache_key": "mine"}

    assert prepare(request) is request
    assert keys(marks=False) == {}
    assert keys(cache=ebbtide.Cache(key=False)) == {}
    assert keys("my-local-model", cache=ebbtide.Cache(key=True))


def test_a_refused_cache_key_is_left_out_and_not_sent_again():
    refusal = BadRequestError("Unrecognized request argument supplied: prompt_cache_key")
    context = ebbtide.Context(window=200_000, clock=Clock())
    request = {**body([user("Find it.")]), "model": "gpt-5"}
    ready = context.prepare(request)

    assert ready.can_retry(refusal)
    assert context.overflowed(refusal).body == request
    assert "prompt_cache_key" not in context.prepare(request).body
