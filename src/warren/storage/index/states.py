"""How far a queued message is on its way to the disk (`QueuedMessage.state`).

    VOLATILE                        not given to the index
    GATHERED -> WRITING -> JOURNALED -> SCATTERING -> SEGMENTED
        given      in the batch   safe     being copied    safe, and its body may leave memory:
        to the     under way               to a segment    `QueueIndex.read` brings it back
        index
    DEAD                            acknowledged; the index has forgotten it

A transient message with a large body may have that written without an entry in the index:

    VOLATILE -> GATHERED -> WRITING -> STORED -> GATHERED -> ... (`QueueIndex.enter_stored`)

Its body may leave memory when it is STORED; its place is known to the queue alone (beta).

A failed batch takes WRITING back to GATHERED, a failed copy SCATTERING back to JOURNALED. Whatever
is acknowledged while it is still GATHERED is never written at all.
"""

from __future__ import annotations

from typing import Final

VOLATILE: Final = 0
GATHERED: Final = 1
WRITING: Final = 2
JOURNALED: Final = 3
SEGMENTED: Final = 4
DEAD: Final = 5
SCATTERING: Final = 6
STORED: Final = 7

# Files of the transient message store are numbered from here, those of the persistent one below.
TRANSIENT_FILE_MIN: Final = 1 << 30
