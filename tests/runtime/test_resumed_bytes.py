"""What a session keeps in memory only saves time: a new process sends the same bytes."""

from ebbtide.runtime import Context
from ebbtide.store import MemoryStore
from runtime.sessions import Clock, body, digest

LINE = "src/tide_{n}/gauge_{k}.py:{k}: reading_{n}_{k} = level_{k} - datum_{n}\n"


def _conversation(turns: int) -> list[dict[str, object]]:
    """Results of some 3,000 tokens, with names that are there once and names that are there again; long calls."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "fix gauge_3, never touch datum_1"}]
    for n in range(turns):
        given = {"command": f"go test ./tide_{n % 5}", "why": f"gauge_{n} failed before, see reading_{n % 7}_2. " * 20}
        use = {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": given}
        said = {"type": "text", "text": f"Now I look at gauge_{n}, since reading_{n}_1 is off. Then at datum_{n}."}
        text = "".join(LINE.format(n=n % 9, k=k) for k in range(n % 4, 110)) + ("exit code 1" if n % 3 else "")
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": text}
        messages += [{"role": "assistant", "content": [said, use]}, {"role": "user", "content": [result]}]
    return messages


def test_a_session_resumed_by_a_new_process_sends_the_same_bytes():
    """Through clearing and summarizing, with a new process at every third request."""
    messages, sent, did = _conversation(44), {True: [], False: []}, set()
    for anew in sent:
        clock, store, ctx = Clock(), MemoryStore(), None
        for turn, n in enumerate(range(1, len(messages) + 1, 2)):
            if ctx is None or (anew and turn % 3 == 0):
                ctx = Context(model="claude-opus-4-5", window=64_000, store=store, session="s", clock=clock)
            ready = ctx.prepare(body(messages[:n]))
            did |= {edit.by for edit in ready.report.edits}
            sent[anew].append((digest(ready.body), ready.report.notes))
            clock.tick()

    assert did >= {"clear_results", "summarize"}, "both came about"
    assert sent[True] == sent[False]
