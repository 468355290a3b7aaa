"""Connection negotiation and heartbeats as pure machines: no sockets, no clock, no queues."""
