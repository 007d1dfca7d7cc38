"""`python -m hibor`: all commands under one name (see `hibor.cli`)."""

import sys

from hibor.cli import main

if __name__ == "__main__":
    sys.exit(main())
