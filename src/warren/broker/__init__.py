"""Virtual hosts and what is declared in them: every change stored first, applied when told."""
