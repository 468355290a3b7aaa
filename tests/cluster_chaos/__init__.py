"""A cluster that is hurt at random while its topology changes all the time: see `chaos`."""
