"""Codex's own folder: its sessions are listed by a glance at each file."""

import json

from ebbtide.formats.codex_folder import list_codex_sessions


def rollout(path, *, prompt="fix the gauge", model="gpt-5-codex", tokens=41_000, filler=0):
    """A rollout as Codex writes it: settings, its own texts as a user's message, the prompt, and a bill."""
    text = [{"type": "input_text", "text": "<environment_context>cwd</environment_context>"}]
    rows = [
        {"type": "session_meta", "payload": {"id": path.stem, "cwd": "/home/me/tides", "instructions": "i" * 20_000}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": text}},
        {
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]},
        },
        {"type": "turn_context", "payload": {"model": model}},
        {"type": "event_msg", "payload": {"type": "agent_message", "message": "m" * filler}},
        {
            "type": "event_msg",
            "payload": {
                "type": "token_count",
                "info": {
                    "total_token_usage": {"total_tokens": 900_000},
                    "last_token_usage": {"input_tokens": tokens - 10, "output_tokens": 10, "total_tokens": tokens},
                    "model_context_window": 272_000,
                },
            },
        },
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_sessions_are_listed_with_what_the_user_asked(tmp_path):
    day = tmp_path / "sessions" / "2026" / "11" / "19"
    rollout(day / "rollout-a.jsonl")
    rollout(day / "rollout-b.jsonl", prompt="修好潮位计", tokens=99_000, filler=400_000)

    listed = {session.session: session for session in list_codex_sessions(tmp_path)}

    assert {session.title for session in listed.values()} == {"fix the gauge", "修好潮位计"}
    assert {session.folder for session in listed.values()} == {"/home/me/tides"}
    assert [listed[name].tokens for name in ("rollout-a", "rollout-b")] == [41_000, 99_000]
    assert {session.window for session in listed.values()} == {272_000}
    assert listed["rollout-a"].model == "gpt-5-codex"
    assert len(list_codex_sessions(tmp_path, limit=1)) == 1


def test_other_files_links_and_missing_folders_are_no_sessions(tmp_path):
    day = tmp_path / "sessions" / "2026"
    rollout(day / "notes.jsonl")
    (day / "rollout-broken.jsonl").write_text('{"type": "session_meta"\nnot json')
    (day / "rollout-list.jsonl").write_text('["session_meta"]\n')
    (tmp_path / "sessions" / "loop").symlink_to(tmp_path / "sessions")

    assert list_codex_sessions(tmp_path) == []
    assert list_codex_sessions(tmp_path / "none") == []
