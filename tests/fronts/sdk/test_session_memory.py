"""Sessions that a wrapped client keeps in memory."""

from ebbtide.fronts.sdk.sessions import MAX_SESSIONS, ModelCall, SdkSession, SdkSessions


def call(text: str) -> ModelCall:
    return ModelCall(
        wire="anthropic", url="/v1/messages", body={"messages": [{"role": "user", "content": text}]}, headers={}
    )


def test_the_newest_sessions_stay_in_memory_and_the_oldest_is_dropped():
    opened: list[str] = []

    def open_session(name: str, call: ModelCall, is_named: bool) -> SdkSession:
        opened.append(name)
        return SdkSession(name=name, is_named=is_named, call=call)

    sessions = SdkSessions(open_session)
    first = sessions.session_for(call("first"))
    for n in range(MAX_SESSIONS - 1):
        sessions.session_for(call(str(n)))
    assert sessions.session_for(call("first")) is first
    sessions.session_for(call("one too many"))

    assert sessions.session_for(call("first")) is first
    assert len(opened) == MAX_SESSIONS + 1
    sessions.session_for(call("0"))
    assert len(opened) == MAX_SESSIONS + 2
