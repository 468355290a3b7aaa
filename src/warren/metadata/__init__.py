"""What the broker must not forget: a small ordered key-value store, and the shape of what is in it.

`store` is the interface and its contract, `sqlite` the engine of a single node, `keys` and `codec`
say where and how topology is kept.
"""
