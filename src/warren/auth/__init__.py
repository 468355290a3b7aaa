"""Who may log in, and who may do what where.

`access` answers from memory, `admin` changes the metadata store, and the store's watch carries
every change, made here or on another node, back into `access`.
"""
