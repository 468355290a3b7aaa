"""Compares what nodes have on their disks: python audit.py a=/data/a b=/data/b"""

from __future__ import annotations

import sys

from pyspark_warren import local_session
from pyspark_warren.jobs import AuditOptions, audit

if not sys.argv[1:]:
    sys.exit(__doc__)
done = audit(local_session("audit"), AuditOptions(nodes=",".join(sys.argv[1:])))
print("\n".join(done.lines()))
