"""Configuration: the settings, how a file of them is read, and their reference."""
