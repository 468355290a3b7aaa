"""Long work in pieces: between two of them the loop may turn to others."""

from __future__ import annotations

from collections.abc import Generator


class NextTurn:
    """`await NextTurn()` goes on in the next turn of the loop.

    A coroutine that yields nothing is one that has only stepped aside: that is how event loops
    take it, and why nothing of theirs is needed here.
    """

    def __await__(self) -> Generator[None, None, None]:
        yield
