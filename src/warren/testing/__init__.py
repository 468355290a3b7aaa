"""A world to try machines in: time, links and a metadata store that one seed decides about."""
