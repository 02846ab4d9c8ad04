"""`ebb`, also as `python -m ebbtide`.

While modules load, Ctrl-C ends the process without a traceback.
"""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from ebbtide.fronts.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
