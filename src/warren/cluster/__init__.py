"""Several nodes as one broker: links between them, and queues whose master is elsewhere."""
