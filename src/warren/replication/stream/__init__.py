"""Copies of streams: chunks that a master sends, and mirrors append as they are."""
