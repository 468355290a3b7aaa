"""Queues: what holds messages, hands them out and gets them back."""
