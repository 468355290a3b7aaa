"""Guaranteed multicast (gm): every member of a ring hears all that any of them says, in order."""
