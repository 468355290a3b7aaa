"""Channels: where what clients ask for meets exchanges, queues and permissions."""
