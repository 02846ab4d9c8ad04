"""`ebb chat -p`: the answer on stdout, words to people on stderr, and exit codes that scripts can go by."""

import io
import json
import os
import stat

import pytest

from ebbtide.fronts.cli.main import main
from upstream.script import Failure, Say, Use
from upstream.server import Upstream
from workspace.project_files import git


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A workspace, and an environment without anybody's keys or settings."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "OPENAI_", "EBB_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("EBB_HOME", str(tmp_path / "store"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def chat(upstream: Upstream, *arguments: str) -> int:
    return main(["chat", "--provider", "anthropic", "--base-url", upstream.url, *arguments])


def test_the_answer_and_nothing_else_is_on_stdout(place, capsys):
    (place / "a.txt").write_text("forty-one\n")
    with Upstream([[Say("I read."), Use("read", {"path": "a.txt"})], "It is 41."]) as upstream:
        assert chat(upstream, "-p", "What is it?") == 0

    assert capsys.readouterr().out == "It is 41.\n"
    assert "forty-one" in str(upstream.requests[1].parsed)


def test_json_has_answer_usage_edits_and_cost(place, capsys):
    with Upstream(["Hello."]) as upstream:
        assert chat(upstream, "-p", "Hi.", "--output", "json") == 0

    data = json.loads(capsys.readouterr().out)
    assert (data["answer"], data["error"], data["requests"], data["edits"]) == ("Hello.", None, 1, [])
    assert data["usage"]["input"] + data["usage"]["cache_write"] == upstream.requests[0].usage.prompt
    assert data["cost"] > 0
    assert data["model"] == "claude-sonnet-5"


def test_in_a_script_what_was_not_allowed_is_refused_and_reported(place, capsys):
    with Upstream([[Use("bash", {"command": "touch made"})], "I may not."]) as upstream:
        assert chat(upstream, "-p", "Go.") == 0

    assert not (place / "made").exists()
    assert "--allow bash" in capsys.readouterr().err


def test_permission_to_write_files_does_not_cover_what_git_runs(place, capsys):
    hook = {"path": ".git/hooks/post-checkout", "content": "x"}
    with Upstream([[Use("write", hook)], "I may not.", [Use("write", hook)], "Done."]) as upstream:
        assert chat(upstream, "-p", "Go.", "--allow", "write") == 0
        assert "git runs what this file says" in (output := capsys.readouterr().err)
        assert "--allow write,bash" in output
        assert not (place / hook["path"]).exists()
        assert chat(upstream, "-p", "Go.", "--allow", "write,bash") == 0

    assert (place / hook["path"]).exists()


@pytest.mark.parametrize("permission", [("--allow", "bash"), ("--yes",)])
def test_what_was_allowed_beforehand_runs(place, capsys, permission):
    with Upstream([[Use("bash", {"command": "touch made"})], "Done."]) as upstream:
        assert chat(upstream, "-p", "Go.", *permission) == 0

    assert (place / "made").exists()


def test_the_prompt_may_be_read_from_stdin(place, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
    with Upstream(["Heard."]) as upstream:
        assert chat(upstream, "-p", "-") == 0

    assert upstream.requests[0].parsed["messages"][-1]["content"][-1]["text"] == "from a pipe"


def test_a_session_continues_in_another_process(place, capsys):
    with Upstream(["My name is Ada.", "Ada."]) as upstream:
        chat(upstream, "-p", "Who are you?")
        chat(upstream, "-p", "Again?", "--continue")

    assert len(upstream.requests[1].parsed["messages"]) == 3


def test_a_resumed_session_remembers_its_model_and_its_server(place, capsys):
    with Upstream(["One.", "Two.", "Three."]) as upstream:
        main(["chat", "--base-url", upstream.url + "/v1", "--model", "qwen3", "-p", "Hi."])
        assert main(["chat", "--continue", "-p", "On."]) == 0
        assert main(["chat", "--continue", "--model", "qwen4", "-p", "On."]) == 0

    assert [request.path for request in upstream.requests] == ["/v1/chat/completions"] * 3
    assert [one.parsed["model"] for one in upstream.requests] == ["qwen3", "qwen3", "qwen4"]
    assert len(upstream.requests[2].parsed["messages"]) == 6


def test_an_address_with_a_password_is_not_written_down(place, capsys):
    with Upstream(["One."]) as upstream:
        url = upstream.url.replace("http://", "http://me:secret@")
        main(["chat", "--provider", "anthropic", "--base-url", url, "-p", "Hi."])

    logs = [path.read_text() for path in (place.parent / "store").rglob("*.jsonl")]
    assert logs
    assert "secret" not in "".join(logs)


def test_commands_do_not_see_the_providers_keys(place, capsys, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    with Upstream([[Use("bash", {"command": "env"})], "Done."]) as upstream:
        chat(upstream, "-p", "Go.", "--yes")

    assert "EBB_HOME" in str(upstream.requests[1].parsed)
    assert "sk-secret" not in str(upstream.requests[1].parsed)


def test_no_background_command_outlives_the_script(place, capsys):
    with Upstream(
        [
            [Use("bash", {"command": "echo $$ > pid; exec sleep 600", "background": True})],
            [Use("bash", {"command": "until test -s pid; do sleep 0.05; done"})],
            "Up.",
        ]
    ) as upstream:
        chat(upstream, "-p", "Go.", "--yes")

    with pytest.raises(ProcessLookupError):
        os.kill(int((place / "pid").read_text()), 0)


def test_without_a_model_the_message_names_every_way_to_choose_one(place, capsys):
    assert main(["chat", "-p", "Hi."]) == 2

    output = capsys.readouterr().err
    assert all(word in output for word in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "--base-url", "--local"))


def test_a_custom_server_is_asked_for_its_model_or_named(place, capsys):
    with Upstream(["Hi."]) as upstream:
        assert main(["chat", "--base-url", upstream.url + "/v1", "-p", "Hi."]) == 2
        assert "--model" in capsys.readouterr().err
        assert main(["chat", "--base-url", upstream.url + "/v1", "--model", "qwen3", "-p", "Hi."]) == 0
        assert (
            main(
                ["chat", "--base-url", upstream.url + "/v1", "--model", "gpt-5", "--provider", "responses", "-p", "Hi."]
            )
            == 0
        )

    assert [request.path for request in upstream.requests] == ["/v1/chat/completions", "/v1/responses"]


def test_a_provider_refusal_is_one_line_and_exit_code_1(place, capsys):
    with Upstream([Failure(status=401, message="invalid x-api-key")]) as upstream:
        assert chat(upstream, "-p", "Hi.") == 1

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "ebb: the provider refused (401): invalid x-api-key; check the key\n"


def test_a_request_that_cannot_fit_is_exit_code_3(place, capsys):
    with Upstream(["Hi."]) as upstream:
        assert chat(upstream, "-p", "Hi.", "--window", "600") == 3

    assert not upstream.requests


def test_unknown_tools_and_directories_are_bad_input(place, capsys):
    with Upstream([]) as upstream:
        assert chat(upstream, "-p", "Hi.", "--allow", "teleport") == 2
        assert chat(upstream, "-p", "Hi.", "-C", "nowhere") == 2
        assert chat(upstream, "--output", "json") == 2
        assert chat(upstream, "-p", "Hi.", "--resume", "nothing") == 2


def system_of(upstream: Upstream) -> list[str]:
    return [str(request.parsed["system"]) for request in upstream.requests]


def test_a_script_never_asks_whether_a_folder_is_trusted_and_leaves_git_out(place, capsys):
    git(place, "init", "-q", "-b", "trunk")
    with Upstream(["One.", "Two.", "Three.", "Four."]) as upstream:
        for more in ([], ["--trust"], [], ["--no-trust"]):
            assert chat(upstream, *more, "-p", "Hi.") == 0

    assert ["Branch: trunk" in system for system in system_of(upstream)] == [True] * 4
    assert ["Status:" in system for system in system_of(upstream)] == [False, True, True, False]
    assert "Trust" not in capsys.readouterr().out
    kept = place.parent / "config" / "ebbtide" / "trusted-folders.json"
    assert json.loads(kept.read_text()) == {"folders": {str(place): False}}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_trust_in_one_folder_does_not_cover_another_or_a_copy_of_the_file(place, capsys, monkeypatch):
    for folder in (place, place / "inner", place.parent / "beside"):
        folder.mkdir(exist_ok=True)
        git(folder, "init", "-q", "-b", "trunk")
    (place.parent / "beside" / "ebbtide.toml").write_text("")
    with Upstream(["One.", "Two.", "Three."]) as upstream:
        assert chat(upstream, "--trust", "-p", "Hi.") == 0
        assert chat(upstream, "-C", str(place / "inner"), "-p", "Hi.") == 0
        # What a repository brings along is not the user's own.
        claimed = json.dumps({"folders": {str(place.parent / "beside"): True}})
        (place.parent / "beside" / "trusted-folders.json").write_text(claimed)
        monkeypatch.setenv("EBB_CONFIG", str(place.parent / "beside" / "ebbtide.toml"))
        assert chat(upstream, "-C", str(place.parent / "beside"), "-p", "Hi.") == 0

    assert ["Status:" in system for system in system_of(upstream)] == [True, False, False]


def test_an_answer_that_cannot_be_remembered_counts_for_this_time(place, capsys):
    git(place, "init", "-q", "-b", "trunk")
    (place.parent / "config").write_text("in the way")
    with Upstream(["One."]) as upstream:
        assert chat(upstream, "--trust", "-p", "Hi.") == 0

    assert "Status:" in system_of(upstream)[0]
    assert "could not be saved" in capsys.readouterr().err


@pytest.mark.parametrize(
    "broken", [b"", b"[]", b"{", b'{"folders": []}', b'{"folders": {"x": "yes"}}', b"\xff", b"[" * 100_000]
)
def test_a_broken_list_of_folders_trusts_nothing_and_is_replaced(place, capsys, broken):
    git(place, "init", "-q", "-b", "trunk")
    kept = place.parent / "config" / "ebbtide" / "trusted-folders.json"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(broken)
    with Upstream(["One.", "Two."]) as upstream:
        assert chat(upstream, "-p", "Hi.") == 0
        assert chat(upstream, "--trust", "-p", "Hi.") == 0

    assert ["Status:" in system for system in system_of(upstream)] == [False, True]
    assert json.loads(kept.read_text())["folders"][str(place)] is True
