"""The index: journal, segments and checkpoint, which say what messages durable queues have."""
