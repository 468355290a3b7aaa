"""What a node tells of itself as events, beside what happens: figures, and who is held up."""
