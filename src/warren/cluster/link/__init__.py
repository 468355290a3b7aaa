"""Links between nodes: both ends of one, and queues whose master is another node."""
