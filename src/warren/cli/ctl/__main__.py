"""`python -m warren.cli.ctl`."""

from __future__ import annotations

from warren.cli.ctl import main

main()
