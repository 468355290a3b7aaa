"""Values every other package speaks in; imports nothing of ours."""
