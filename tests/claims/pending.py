"""Claims that are pending: their tests are expected to fail until the work on them is merged.

Delete a line here, and its number in docs/CLAIMS.md under "Under way", when a test passes: pytest
reports a claim that passes too early as a failure.
"""

from __future__ import annotations

from typing import Final

PENDING: Final[dict[int, str]] = {
}
MAY_PASS: Final = frozenset[int]()
"""Pending claims whose tests pass now and then, by luck."""
