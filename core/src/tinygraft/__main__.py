"""python -m tinygraft: the same as the tinygraft command."""

import sys

from tinygraft.cli.main import main

sys.exit(main())
