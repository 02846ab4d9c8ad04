"""`python -m ebbtide` is `ebb`, for where scripts are not on the path."""

import sys

from ebbtide.fronts.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
