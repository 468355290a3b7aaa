"""The management page: what the HTTP API tells, to look at, and what it does, to click."""
