"""The API of any node answers about all nodes: asking the others, and putting answers together."""
