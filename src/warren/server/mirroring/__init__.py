"""A node's part in mirrored queues: joins the machines of `mirror` to links, store and disks."""
