"""`python -m autohedge`."""

from autohedge.cli import main

raise SystemExit(main())
