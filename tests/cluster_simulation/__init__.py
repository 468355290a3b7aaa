"""Whole clusters with a mirrored queue in one process, each decided about by one seed.

Everything that is inside a node is the real thing: the machine that decides and the shell that
carries it out, the broker's topology and policies, queues, replicas with their ring, both ends of
links with handshake and pulse, the keeper of the session, and what is withheld while a node may not
act. Played is what nodes stand on: a store like etcd, connections, disks, clocks and clients. They
are slow, cut one way or both ways, lose what was not synced, take nothing for a while; processes
are killed, stopped in good order, or stand still.

    run         one seed: work and harm for a while, then peace, then the reckoning
    scenarios   other lives than that, by name
    harm        what can happen to a cluster
    world       a cluster: `node` and its `process`, `loop`, `network`, `store`, `disk`, `clients`
    witness     sees everything at once, and what must never be
    breaks      production code broken on purpose, to show that the witness sees it
    command     `scripts/simulate`
"""
