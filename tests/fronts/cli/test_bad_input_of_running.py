"""Bad input of the commands around a running agent: a sentence, exit code 2, and nothing is written anywhere."""

import pytest

BAD = {
    "run": "name the program to run",
    "run --": "name the program to run",
    "run --bogus -- true": "there is no option --bogus",
    "run --window wide -- true": "'wide' is not a number of tokens",
    "run --window 100 -- true": "smaller than that of any model",
    "run --recall loud -- true": "'loud' is not one of path, tool, off",
    "run --policy nope -- true": "no policy is called 'nope'",
    "run --upstream nonsense -- true": "'nonsense' is not an address",
    "run --upstream other=http://h -- true": "--upstream 'other'",
    "run --store /dev/null/x -- true": "cannot be written to",
    "run --json -- true": "--json belongs to --list",
    "install": "arguments are required",
    "install claude codex": "unexpected argument 'codex'",
    "install no-such-command": "there is no command no-such-command",
    "install ../x": "is not the name of a command",
    "install claude --shell tcsh": "'tcsh' is not one of bash, zsh, fish",
    "install service --port high": "'high' is not a port",
    "install service --port 70000": "70000 is not a port",
    "install service --port 0": "needs a fixed port",
    "install claude --port 1": "--port belongs to",
    "uninstall": "arguments are required",
    "uninstall ../x": "is not the name of a command",
    "uninstall claude --bogus": "there is no option --bogus",
    "top extra": "unexpected argument 'extra'",
    "top --every 0": "'0' is not a number of seconds",
    "top --every soon": "'soon' is not a number of seconds",
    "top --proxy here": "'here' is not an address",
    "top --once --store /dev/null/x": "cannot be a directory",
    "statusline --bogus": "there is no option --bogus",
    "statusline a b": "unexpected argument 'b'",
    "audit no-such-file": "there is no file no-such-file",
    "audit --limit few": "'few' is not a number of sessions",
    "audit --window wide": "'wide' is not a number of tokens",
    "audit --html no-such-folder/a.html": "there is no folder no-such-folder",
    "audit --html .": "or it is a folder itself",
    "audit": "no sessions of a coding agent in",
    "audit --receipt a": "--receipt reads your store alone",
    "audit --receipt --html a.html": "--receipt reads your store alone",
    "audit --receipt --store /dev/null/x": "cannot be a directory",
    "store": "arguments are required",
    "store bogus .": "'bogus' is not one of",
    "store setup": "arguments are required",
    "store copy a": "give two places",
    "store copy no-such-folder other": "there are no sessions in no-such-folder",
    "delete": "give either a session or --tenant",
    "delete a --tenant b": "give either a session or --tenant",
    "delete no-such-session": "there are no sessions in",
    "delete --tenant": "expected one argument",
}


@pytest.mark.parametrize("words", BAD)
def test_it_is_explained_and_nothing_is_written(words, ebb, tmp_path):
    result = ebb(*words.split())

    assert (result.code, result.out) == (2, b"")
    assert BAD[words] in result.err
    assert result.err.startswith("ebb: ")
    assert "Traceback" not in result.err
    assert list(tmp_path.iterdir()) == []
