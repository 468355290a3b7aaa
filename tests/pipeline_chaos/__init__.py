"""Kills what takes part in an ingest, at random, and checks that the lake has each message once."""
