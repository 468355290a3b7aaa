"""Holding publishers back before memory or disk runs out, and saying who waits for whom."""
