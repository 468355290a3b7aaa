"""Whole clusters with a mirrored queue in one process, each decided about by one seed.

Everything that decides anything is the real thing: `Replica`, its ring, master and mirror, the
synchroniser, on real variable queues. Played are the world around them: a store that is slow, links
that are slow, cut one-way or both ways and lose what was under way, disks that forget what was not
synced when their node is killed, or will take nothing, nodes that are killed or stand still, and
clients.

    run       one seed: work and harm for a while, then peace, then the reckoning
    scenarios other lives than that, by name
    harm      what can happen to a cluster
    world     a cluster: `node`, `copy_of_node`, `disk`, `store`, `publishers`
    witness   sees everything at once, and what must never be
    breaks    the protocol broken on purpose, to show that the witness sees it
    command   `scripts/simulate`
"""
