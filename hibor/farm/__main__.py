"""`python -m hibor.farm` (see `hibor.farm`)."""

import sys

from hibor.farm import main

if __name__ == "__main__":
    sys.exit(main())
