"""Streams: queues that keep what they were given, and are read from any place, again and again."""
