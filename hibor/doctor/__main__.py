"""Entry point of `python -m hibor.doctor`."""

import sys

from hibor.doctor.command import main

if __name__ == "__main__":
    sys.exit(main())
