"""`python -m hibor.package`: pack what a run delivered (see `hibor.package_zip`)."""

import sys

from hibor.package_zip import main

if __name__ == "__main__":
    sys.exit(main())
