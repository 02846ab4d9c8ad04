"""`ebb`, and `python -m ebbtide` for where scripts are not on the path.

Modules take a moment to load, and nobody catches Ctrl-C in it: it ends us as it ends any program, with no traceback.
"""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from ebbtide.fronts.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
