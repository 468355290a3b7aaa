"""Support for simulations: virtual time, links and a metadata store, decided by one seed."""
