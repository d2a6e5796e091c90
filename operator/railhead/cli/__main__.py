"""`python -m railhead.cli`."""

from __future__ import annotations

import sys

from railhead.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
