from collections.abc import Sequence
from typing import final

from warren.storage.disk.files import Buffer

@final
class CommitThread:
    @property
    def descriptor(self) -> int: ...
    def start(
        self,
        writes: Sequence[tuple[int, Sequence[Buffer]]],
        syncs: Sequence[int],
        placed: Sequence[tuple[int, int, Sequence[Buffer]]] = (),
    ) -> None: ...
    def collect(self) -> tuple[int, bool, int] | None: ...
    def stop(self) -> None: ...
