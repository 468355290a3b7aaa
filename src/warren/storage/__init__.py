"""Messages on disk: what must survive a crash, and what does not fit in memory."""
