"""`python -m jobqueued` is the command line."""

import sys

from jobqueued.cli.main import main

sys.exit(main())
