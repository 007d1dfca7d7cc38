"""`python -m hibor.quota`: what became of each account's downloads (see `hibor.quota_cli`)."""

import sys

from hibor.quota_cli import main

if __name__ == "__main__":
    sys.exit(main())
