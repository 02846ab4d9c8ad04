"""`ebb`. Errors are told by whose fault they are: 0 done, 1 ours, 2 bad input, 3 won't fit; a traceback is for nobody.

Fronts with dependencies of their own are imported only when called: no front imports another. The commands are
loaded inside the guard as well: that takes half a second, and Ctrl-C may come in it. (`ebbtide.__main__` has none of it
caught until they are there: within a class that is being made, Python turns it into another error.)
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from ebbtide.core.errors import BadConfig, BadRequest, EbbtideError, WontFit
from ebbtide.fronts.cli.screen import never_choke, say

DONE, OURS, THEIRS, TOO_LARGE = 0, 1, 2, 3
INTERRUPTED, NO_READER = 130, 141
"""128 and the signal's number, as shells count."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    never_choke()
    try:
        # Other fronts do not know it, and it may stand anywhere.
        return _run([one for one in arguments if one != "--traceback"])
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return NO_READER
    except SystemExit as done:
        # argparse leaves with 0 or 2; rich leaves with 1 where nobody reads any more.
        return done.code if done.code in (DONE, THEIRS) else NO_READER
    except Exception as failed:
        # The last door: the person gets a sentence and an exit code.
        if "--traceback" in arguments:
            raise
        return _told(failed)


def _run(arguments: list[str]) -> int:
    grammar = import_module("ebbtide.fronts.cli.grammar")
    if arguments[:1] == ["help"]:
        # What every other program understands: `help` is the overview, `help COMMAND` its --help.
        arguments = [*arguments[1:2], "--help"] if arguments[1:] else []
    if arguments and arguments[0] in grammar.ELSEWHERE and grammar.installed(arguments[0]):
        front = import_module(f"ebbtide.fronts.{arguments[0]}.command")
        _catch_interrupts()
        code: int = front.main(arguments[1:])
        return code
    _catch_interrupts()
    args = grammar.command_line().parse_args(arguments)
    if args.command is None:
        import_module("ebbtide.fronts.cli.overview").show_overview()
        done: int = DONE
    else:
        done = args.run(args)
    sys.stdout.flush()
    return done


def _catch_interrupts() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        with suppress(ValueError):  # a thread may not, and then nobody interrupts it
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _told(failed: Exception) -> int:
    match failed:
        case WontFit():
            say(f"ebb: won't fit: {failed}")
            return TOO_LARGE
        case BadRequest() | BadConfig():
            say(f"ebb: {failed}")
            return THEIRS
        case RecursionError():
            say("ebb: nested too deeply to be a request")
            return THEIRS
        case EbbtideError():
            say(f"ebb: {failed}")
            return OURS
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EIO, filename=None):
            # Files that a command opens bring their names along; without one it is where we print to.
            say(f"ebb: the output cannot be written: {failed.strerror}")
            return OURS
        case OSError():
            say(f"ebb: {failed}")
            return OURS
    say(f"ebb: a fault of ours: {type(failed).__name__}: {failed}\nebb --traceback ... says where; please report it")
    return OURS


def _forget_stdout() -> None:
    """Python flushes at exit; where nobody reads, that would be one more error."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
