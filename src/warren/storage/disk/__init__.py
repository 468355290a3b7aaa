"""The disk: files, checksums, group commit, and the credit for bytes on their way to it."""
