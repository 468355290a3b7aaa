"""What the broker has done and how fast: counters summed up, sampled, and turned into rates."""
