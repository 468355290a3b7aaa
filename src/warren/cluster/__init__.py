"""Several nodes as one broker: links between them, and queues whose home is elsewhere."""
