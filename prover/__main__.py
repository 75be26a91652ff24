"""`python -m prover` is `cuzk`."""

import sys

from prover.cli import main

sys.exit(main())
