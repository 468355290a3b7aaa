"""Copies of classic queues: what a master tells its mirrors, and how they are synchronised."""
