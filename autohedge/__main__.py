"""`python -m autohedge`."""

from autohedge.light import main

raise SystemExit(main())
