"""Several nodes that act as one broker: real processes, a real etcd, clients anywhere."""
