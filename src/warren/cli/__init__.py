"""The programs people start: `warren` and `warrenctl`."""
