"""Policies: which applies to a queue or an exchange, what it may say, and what comes of it."""
