"""Compares what nodes have on their disks: python audit.py a=/data/a b=/data/b"""

from __future__ import annotations

import sys

from pyspark_warren import local_session
from pyspark_warren.jobs import AuditOptions, audit

if not sys.argv[1:]:
    sys.exit(__doc__)
done = audit(local_session("audit"), AuditOptions(nodes=",".join(sys.argv[1:])))
for name, node in done.nodes.items():
    print(f"{name}: {node.messages} messages in {node.queues} queues")
for one in done.differences:
    print(f"{one.kind}: {one.queue} {one.message_id} {one.copies}")
print("the copies are the same" if done.is_sound else "the copies are NOT the same")
