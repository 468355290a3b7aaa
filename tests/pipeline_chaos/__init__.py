"""Kills what takes part in a job, at random, and checks that each message arrives once."""
