"""The door: overview, help, exit codes, streams, and what happens when something goes wrong."""

import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

import ebbtide
from ebbtide.fronts.cli.command_line import command_briefs, command_line, every_command
from ebbtide.fronts.cli.main import main
from ebbtide.fronts.cli.overview import BRIEFS, GROUPS
from fronts.cli.terminal import PROGRAM, on_a_terminal, request, run_program, stored, written

COMMANDS = [
    *("fit", "context", "explain", "report", "why", "recall", "sessions", "show"),
    *("diff", "undo", "redo", "verify", "delete", "gc", "export", "doctor", "completion", "install", "uninstall"),
]


def test_alone_it_prints_an_overview_that_names_every_command(ebb):
    result = ebb()

    assert result.code == 0
    assert set(COMMANDS) <= set(re.findall(r"[a-z]+", result.text))
    assert len(result.text.splitlines()) <= 22
    assert max(map(len, result.text.splitlines())) <= 80


def test_the_overview_groups_every_command_there_is_and_begins_with_three_lines_to_paste(ebb):
    result = ebb("--help")
    tries = re.findall(r"^  (ebb .+?)  ", ebb().text.partition("\n\n")[2].partition("\n\n")[0], re.MULTILINE)

    assert len(tries) == 3
    assert all(command_line().parse_args(shlex.split(line)[1:]) for line in tries)
    assert {name for group in GROUPS.values() for name in group} == set(command_briefs())
    assert all(re.search(rf"^  {name} ", result.text, re.MULTILINE) for name in command_briefs())


def test_what_the_overview_says_of_a_command_is_the_first_line_of_its_help(ebb):
    assert dict(BRIEFS) == command_briefs()
    assert (ebb("--version").code, ebb("--version").text) == (0, f"ebb {ebbtide.__version__}\n")


@pytest.mark.parametrize("arguments", [["--version"], [], ["run", "--list"]])
def test_what_starts_often_loads_neither_the_engine_nor_what_draws_tables(arguments, tmp_path):
    code = (
        "import sys; from ebbtide.fronts.cli.main import main; main(sys.argv[1:]);"
        "print(*{'rich', 'aiohttp', 'ebbtide.runtime', 'ebbtide.wire', 'ebbtide.fronts.cli.command_line'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"HOME": str(tmp_path), "PATH": ""})

    assert done.stdout.splitlines()[-1] == ""


def test_the_overview_has_colour_on_a_terminal_and_none_in_a_pipe(ebb):
    assert b"\x1b[" not in ebb().out
    assert b"\x1b[" in ebb.on_a_terminal().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_exit_codes_and_the_variables_of_its_options(name):
    parser = every_command()[name]
    told = parser.epilog.partition("exit codes:")[2]

    assert re.search(r"^  0  done", told, re.MULTILINE)
    assert re.search(r"^  2  bad input", told, re.MULTILINE)
    assert ("EBB_HOME" in told) == ("--store" in parser.flags())
    assert ("EBB_POLICY" in told) == ("--policy" in parser.flags())
    assert ("CLAUDE_CONFIG_DIR" in told) == ("--claude" in parser.flags())
    assert "NO_COLOR" in told


FRONTS = sorted(set(command_briefs()) - set(COMMANDS) - {"run"})


def codes(name):
    """The exit codes that a command's help knows."""
    told = every_command()[name].epilog.partition("exit codes:")[2].partition("\n\n")[0]
    return {int(code) for code in re.findall(r"^ +(\d+)  ", told, re.MULTILINE)}


@pytest.mark.parametrize("name", FRONTS)
def test_help_of_other_fronts_lists_exit_codes_too(name):
    """The last door gives 1 and 2 to all of them; what `ebb run` gives is its program's."""
    assert codes(name) >= {0, 1, 2}


@pytest.mark.parametrize("words", [["fit"], ["context"], ["explain"], ["report"], ["show"], ["diff"], ["why", "x"]])
def test_help_lists_the_exit_code_of_a_request_that_cannot_fit(ebb, tmp_path, words):
    path = written(tmp_path / "r.json", {"messages": [{"role": "user", "content": "word " * 9_000}]})

    result = ebb(*words, path, "--window", "2k")

    assert result.code in codes(words[0])
    assert (result.code == 3) == (words[0] != "context")


def test_options_are_grouped(ebb):
    text = ebb("context", "--help").text

    assert all(f"\n{title}:\n" in text for title in ("input", "engine", "store", "output"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["contxt"], "did you mean context?"),
        (["context", "--polcy", "x"], "did you mean --policy?"),
        (["fit", "--wire", "antropic"], "did you mean anthropic?"),
        (["undo", "a", "b", "c"], "unexpected argument 'c'"),
        (["context", "--example", "--claude"], "not both"),
    ],
)
def test_a_near_miss_is_answered_with_the_right_name(ebb, words, said):
    result = ebb(*words)

    assert result.code == 2
    assert said in result.err
    assert "usage:" not in result.err


@pytest.mark.parametrize("words", [("explain", "--model"), ("context", "--token"), ("frobnicate",)])
def test_an_unknown_name_is_answered_without_a_guess(ebb, words):
    """`--` is no likeness: `--model` is not nearly `--help`."""
    result = ebb(*words)

    assert result.code == 2
    assert f"{words[-1]}" in result.err
    assert "did you mean" not in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["proxy", "--windw", "3"], "there is no option --windw; did you mean --window?"),
        (["proxy", "more"], "unexpected argument 'more'"),
        (["proxy", "--recall", "pth"], "'pth' is not one of path, tool, off; did you mean path?"),
        (["run", "--windw=3", "--", "true"], "there is no option --windw=3; did you mean --window?"),
        (["run"], "name the program to run, as in: ebb run -- claude"),
        (["chat", "--modl", "m"], "there is no option --modl; did you mean --model?"),
        (["ui", "--exmple"], "there is no option --exmple; did you mean --example?"),
        (["mcp", "--sesion", "x"], "there is no option --sesion; did you mean --session?"),
        (["demo", "--sped", "2"], "there is no option --sped; did you mean --speed?"),
        (["replay", "--exampl", "--nonsense"], "there is no option --nonsense"),
    ],
)
def test_commands_of_other_fronts_refuse_in_the_same_two_lines(ebb, words, said):
    result = ebb(*words)

    assert result.code == 2
    error, next_step = result.err.splitlines()
    assert error.startswith("ebb: ")
    assert next_step == f"'ebb {words[0]} --help' explains it"
    assert said in result.err


def test_python_runs_the_package_as_it_runs_the_command_with_its_exit_code():
    done = subprocess.run(
        [sys.executable, "-m", "ebbtide", "fit", "nowhere.json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere.json" in done.stderr


def test_the_version_is_the_packages():
    result = run_program("--version")

    assert (result.returncode, result.stdout) == (0, b"ebb 0.1.0\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_with_examples_that_parse(ebb, name):
    """An example in a help text names only options that exist."""
    result = ebb(name, "--help")
    examples = re.findall(
        r"^  (?:cat \S+ \| |source <\()?ebb ((?:(?!  )[^|>)\n])+)", result.text.partition("examples:")[2], re.M
    )

    assert result.code == 0
    assert len(examples) >= 2
    for words in examples:
        assert command_line().parse_args(shlex.split(words)).command == name


@pytest.mark.parametrize(
    "words", [["nonsense"], ["fit", "--nonsense"], ["gc", "--older-than", "soon"], ["explain", "x", "--price", "nan"]]
)
def test_wrong_arguments_are_bad_input(ebb, words):
    result = ebb(*words)

    assert result.code == 2
    assert result.out == b""
    assert result.err.startswith("ebb: ")


@pytest.mark.parametrize("words", [["--window", "many"], ["--policy", "nobody"]])
def test_a_wrong_setting_is_refused_with_what_would_be_right(ebb, tmp_path, words):
    result = ebb("fit", written(tmp_path / "r.json", request(1)), *words)

    assert result.code == 2
    assert result.out == b""
    assert words[1] in result.err


def test_arguments_may_follow_options(ebb, tmp_path):
    stored(tmp_path / "agents")

    result = ebb("why", "line 3", "--store", "agents", "nightly")

    assert (result.code, result.out) == (0, ebb("why", "line 3", "nightly", "--store", "agents").out)
    assert ebb("undo", "--store", "agents", "nightly", "--json", "p99").code == 2
    assert "unexpected argument" in ebb("why", "line 3", "--store", "agents", "nightly", "--json", "more").err
    assert "no option --nightly" in ebb("why", "line 3", "--store", "agents", "--nightly").err


def test_only_commands_that_accept_files_say_that_a_name_is_no_file(ebb, tmp_path):
    stored(tmp_path)
    written(tmp_path / "r.json", {})

    assert "'r.json' is no session in " in ebb("undo", "r.json").err
    assert "'s.json' is no file and no session in " in ebb("show", "s.json").err


@pytest.mark.parametrize("words", [["show"], ["diff"], ["why", "harbour"], ["context"], ["explain"], ["report"]])
def test_the_example_can_be_shown_in_every_way(ebb, words):
    assert ebb(*words, "--example", "--window", "100k").code == 0


def test_a_file_that_is_not_there_is_bad_input_and_says_what_is(ebb, tmp_path):
    stored(tmp_path, steps=2)

    result = ebb("explain", "nowhere.json")

    assert result.code == 2
    assert "nowhere.json" in result.err
    assert "nightly" in result.err


def test_a_reader_that_closes_the_pipe_is_no_error():
    piped = subprocess.Popen([*PROGRAM, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    piped.stdout.close()
    told = piped.stderr.read()
    piped.stderr.close()

    assert piped.wait() in (0, 141)
    assert told == b""


def test_a_reader_that_closes_the_pipe_in_the_middle_is_no_error_either(tmp_path):
    stored(tmp_path)
    words = [*PROGRAM, "show", "nightly", "--full", "--raw", "--store", str(tmp_path)]
    piped = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    piped.stdout.readline()
    piped.stdout.close()
    told = piped.stderr.read()
    piped.stderr.close()

    assert (piped.wait(), told) == (141, b"")


def test_ctrl_c_ends_quietly_with_130(monkeypatch, capsys):
    class Interrupted:
        @staticmethod
        def read(_):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Interrupted, isatty=lambda: False))

    assert main(["fit"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_store_that_cannot_be_read_is_not_the_users_fault(ebb, tmp_path):
    (tmp_path / "projects").write_text("a file where a folder should be")

    result = ebb("sessions")

    assert (result.code, result.out) == (1, b"")
    assert result.err.count("\n") == 1


def test_main_returns_a_code_and_never_exits():
    assert main(["--version"]) == 0
    assert main(["fit", "--nonsense"]) == 2


class TestTerminal:
    def test_colour_on_a_terminal_none_in_a_pipe_none_when_it_is_turned_off(self, tmp_path):
        body = written(tmp_path / "r.json", request(3))

        assert "\x1b[" in on_a_terminal("context", body)[1]
        assert b"\x1b[" not in run_program("context", body).stdout
        assert not re.search(r"\x1b\[3\dm", on_a_terminal("context", body, env={"NO_COLOR": "1"})[1])

    def test_an_encoding_without_the_symbols_gets_letters(self, tmp_path):
        body = written(tmp_path / "r.json", request(3))

        result = run_program("context", body, env={"PYTHONIOENCODING": "latin-1"})

        assert result.returncode == 0
        assert b"# # #" not in result.stdout.split(b"\n")[0]
        assert result.stdout.count(b"#") >= 1
        assert "■".encode() not in result.stdout
