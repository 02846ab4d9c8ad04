"""The entry point of `ebb`. Exit codes: 0 done, 1 our fault, 2 bad input, 3 the request does not fit.

Fronts with their own dependencies are imported only when called. The commands are loaded inside the guard too, because
that takes half a second in which Ctrl-C may come. (`ebbtide.__main__` lets Ctrl-C end the process until then: within
a class body Python would turn it into another error.)
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from ebbtide import __version__
from ebbtide.fronts.cli.overview import FRONTS, is_installed, print_help, print_overview

DONE, OUR_FAULT, BAD_INPUT, TOO_LARGE = 0, 1, 2, 3
INTERRUPTED, NO_READER = 130, 141
"""128 plus the signal's number, as in shells."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments == ["--version"]:
            print(f"ebb {__version__}", flush=True)
            return DONE
        import_module("ebbtide.screen").make_streams_safe()
        # Allowed anywhere, and unknown to the other fronts.
        return _run([argument for argument in arguments if argument != "--traceback"])
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return NO_READER
    except SystemExit as end:
        # argparse exits with 0 or 2; rich exits with 1 if the pipe has no reader.
        return end.code if end.code in (DONE, BAD_INPUT) else NO_READER
    except Exception as error:
        # The last resort: the person gets a sentence and an exit code.
        if "--traceback" in arguments:
            raise
        return _report_error(error)


def _run(arguments: list[str]) -> int:
    if not arguments:
        _catch_interrupts()
        print_overview()
        sys.stdout.flush()
        return DONE
    if arguments[:1] == ["help"]:
        # `help COMMAND` is the command's --help, as in other programs.
        arguments = [*arguments[1:2], "--help"]
    if arguments in (["--help"], ["-h"]):
        print_help()
        sys.stdout.flush()
        return DONE
    if arguments and arguments[0] in FRONTS and is_installed(arguments[0]):
        front = import_module(f"ebbtide.fronts.{arguments[0]}.command")
        _catch_interrupts()
        return int(front.main(arguments[1:]))
    command_line = import_module("ebbtide.fronts.cli.command_line")
    _catch_interrupts()
    args = command_line.command_line().parse_args(arguments)
    code: int = DONE
    if args.command is None:
        print_overview()
    else:
        code = args.run(args)
    sys.stdout.flush()
    return code


def _catch_interrupts() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        with suppress(ValueError):  # only the main thread may set a handler
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _report_error(error: Exception) -> int:
    # Not before there is one: an overview or a version needs none of this.
    errors, notify = import_module("ebbtide.core.errors"), import_module("ebbtide.screen").notify_error
    match error:
        case errors.WontFit():
            notify(f"won't fit: {error}")
            return TOO_LARGE
        case errors.BadRequest() | errors.BadConfig():
            notify(f"{error}")
            return BAD_INPUT
        case RecursionError():
            notify("nested too deeply to be a request")
            return BAD_INPUT
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EIO, filename=None):
            # An error of a file has its name; without one it is stdout.
            notify(f"the output cannot be written: {error.strerror}")
        case errors.EbbtideError() | OSError():
            notify(f"{error}")
        case _:
            again = "Run it again with --traceback to see where, and please report it."
            notify(f"internal error: {type(error).__name__}: {error}", again)
    return OUR_FAULT


def _discard_stdout() -> None:
    """Python flushes stdout at exit, which would fail again without a reader."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
