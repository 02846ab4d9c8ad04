"""`ebb`, also as `python -m ebbtide`.

While modules load, Ctrl-C ends the process without a traceback.
"""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

if sys.argv[1:2] == ["statusline"]:
    # Claude Code starts it several times a minute, so the other commands are not loaded.
    from ebbtide.fronts.statusline.command import main as _statusline

    sys.exit(_statusline(sys.argv[2:]))

from ebbtide.fronts.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
