"""`ebb doctor`: each thing that can be wrong is seen, told with what to do, and no key is."""

import fcntl
import os
import sqlite3

import pytest

from ebbtide.fronts.cli.doctor import check_extras
from ebbtide.runtime import Context
from fronts.cli.terminal import run_program, stored


@pytest.fixture
def doctor(ebb):
    def looked(*words):
        result = ebb("doctor", "--json", *words)
        return result.code, {(row["area"], row["name"]): row for row in result.json}

    return looked


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "EBB_CONFIG", "EBB_HYPOTHESIS", "EBB_CLIENTS"):
        monkeypatch.delenv(name, raising=False)


def test_a_store_in_order_is_ok_in_every_line(doctor, tmp_path):
    stored(tmp_path, steps=2)

    code, checks = doctor()

    assert code == 0
    assert "1 session, " in checks["store", "path"]["told"]
    assert {one["state"] for (area, _), one in checks.items() if area in ("store", "recall", "settings")} == {"ok"}


def test_for_people_each_line_says_ok_warn_or_fail_and_warnings_what_to_do(ebb):
    told = ebb("doctor").text.splitlines()
    lines = [line for line in told if line.startswith("  ")]

    assert told[-1].startswith("no problems found")
    assert {line.split()[0] for line in lines} <= {"ok", "warn", "fail", "→"}
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        assert not line.startswith("  warn") or after.strip().startswith("→")


def test_keys_are_reported_as_present_and_never_shown(ebb, doctor, monkeypatch):
    assert doctor()[1]["keys", "keys"]["state"] == "warn"

    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret")
    assert doctor()[1]["keys", "keys"]["state"] == "ok"
    assert "secret" not in ebb("doctor").text + ebb("doctor", "--json").text


def test_a_settings_file_that_is_wrong_fails_with_the_file_and_the_key(doctor, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    (work / "ebbtide.toml").write_text("polcy = 'default'\n")
    monkeypatch.chdir(work)

    code, checks = doctor()

    assert code == 1
    assert checks["settings", "project file"]["state"] == "fail"
    assert "polcy" in checks["settings", "project file"]["told"]
    assert checks["store", "path"]["state"] == "warn"


def test_a_mistake_in_one_source_does_not_hide_another(doctor, tmp_path, monkeypatch):
    (tmp_path / "own.toml").write_text("window = 'many'\n")
    monkeypatch.setenv("EBB_CONFIG", str(tmp_path / "own.toml"))
    monkeypatch.setenv("EBB_POLICY", "nobody")

    code, checks = doctor()

    assert code == 1
    assert {name for (area, name), one in checks.items() if one["state"] == "fail"} == {"environment", "user file"}


def test_a_misspelled_variable_is_answered_with_the_intended_one(doctor, monkeypatch):
    monkeypatch.setenv("EBB_POLCY", "default")

    assert "EBB_POLICY" in doctor()[1]["settings", "EBB_POLCY"]["next"]


def test_files_others_may_read_are_a_warning_with_the_command_that_fixes_it(doctor, tmp_path):
    stored(tmp_path, steps=2)
    next((tmp_path / "projects").rglob("*.jsonl")).chmod(0o644)

    _, checks = doctor()

    assert checks["store", "modes"]["state"] == "warn"
    assert "chmod" in checks["store", "modes"]["next"]


def test_a_torn_tail_is_named(doctor, tmp_path):
    stored(tmp_path, steps=2)
    with next((tmp_path / "projects").rglob("*.jsonl")).open("ab") as log:
        log.write(b'{"type": "us')

    assert "nightly" in doctor()[1]["store", "tails"]["told"]


def test_a_lock_held_for_long_is_named_and_a_free_one_is_not(doctor, tmp_path):
    stored(tmp_path, steps=2)
    assert ("store", "locks") not in doctor()[1]

    with next((tmp_path / "projects").rglob("*.lock")).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "nightly" in doctor()[1]["store", "locks"]["told"]


def test_a_store_that_is_a_file_fails(doctor, tmp_path):
    (tmp_path / "taken").touch()

    code, checks = doctor("--store", str(tmp_path / "taken"))

    assert code == 1
    assert checks["store", "path"]["state"] == "fail"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_store_that_may_not_be_written_to_fails(doctor, tmp_path):
    tmp_path.chmod(0o500)
    code, checks = doctor()
    tmp_path.chmod(0o700)

    assert code == 1
    assert checks["store", "path"]["state"] == "fail"


def test_the_doctor_creates_nothing(doctor, tmp_path):
    doctor("--store", str(tmp_path / "new"))

    assert not (tmp_path / "new").exists()


def test_an_index_is_counted_and_a_damaged_one_is_a_warning(doctor, tmp_path):
    stored(tmp_path, steps=2)
    Context(store=tmp_path, session="nightly").recall("gauge")
    assert doctor()[1]["recall", "index"]["told"].startswith("1 session, ")

    (tmp_path / "index.sqlite").write_bytes(b"no database " * 500)
    checks = doctor()[1]["recall", "index"]
    assert checks["state"] == "warn"
    assert "delete it" in checks["next"]


def test_a_model_is_priced_or_reported_as_unknown(doctor):
    _, checks = doctor("--model", "claude-sonnet-5")
    assert "$" in checks["prices", "claude-sonnet-5"]["told"]

    _, checks = doctor("--model", "nobody-1")
    assert checks["prices", "nobody-1"]["state"] == "warn"
    assert "--price" in checks["prices", "nobody-1"]["next"]


def test_an_extra_is_there_if_all_it_needs_is_and_new_enough(tmp_path, monkeypatch):
    """By what an installed package says of itself."""
    needs = ["rich", "rich>=1; extra == 'proxy'", "rich>=9999; extra == 'ui'", "nosuch>=1; extra == 'mcp'"]
    info = tmp_path / "made-1.0.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: made", "Version: 1.0", *(f"Requires-Dist: {one}" for one in needs)]
    lines += ["Requires-Dist: made[mcp]; extra == 'ray'"]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    checks = {check.name: check for check in check_extras("made")}

    assert {name: check.told for name, check in checks.items()} == {
        "ebb proxy, ebb run": "ready",
        "ebb ui": "needs rich>=9999",
        "ebb mcp": "needs nosuch>=1",
        "more": "not installed: ray (ebb replay --ray)",
    }
    assert checks["ebb mcp"].next == "pip install 'ebbtide[mcp]'"


def test_the_real_program_exits_with_0(tmp_path):
    assert run_program("doctor", env={"EBB_HOME": str(tmp_path), "HOME": str(tmp_path)}, cwd=tmp_path).returncode == 0


def test_sqlite_here_can_search_text():
    assert sqlite3.sqlite_version_info >= (3, 34)
