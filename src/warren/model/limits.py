"""Named bounds: how much of anything Warren takes before it says no.

A bound lives here when another package, a test or an operator may want to know it.
"""

from __future__ import annotations

from typing import Final

SHORTSTR_BYTES_MAX: Final = 255
"""A short string's length is one octet."""

TABLE_DEPTH_MAX: Final = 100
"""Tables and arrays within tables. Decoding recurses, and a 128 KiB frame could nest 20 000."""

EXPIRY_MS_MAX: Final = 315_360_000_000
"""Ten years: RabbitMQ's bound on message TTL, queue expiry and the expiration property."""

PRIORITY_MAX: Final = 255
"""Highest x-max-priority: each level costs a queue of its own."""

SUPER_STREAM_PARTITIONS_MAX: Final = 1_000
"""Partitions of one super stream: each is a stream with files of its own, on each of its nodes."""

STREAM_SEGMENT_BYTES_MAX: Final = 3_000_000_000
"""Highest x-stream-max-segment-size-bytes."""

ROUTES_PER_CHANNEL_MAX: Final = 16_384
"""Routes a channel keeps; a publisher with more keys than this starts over."""

ALLOWED_PER_CHANNEL_MAX: Final = 256
"""Permissions a channel keeps before it asks again."""

ROUTES_PER_VHOST_MAX: Final = 65_536
"""Routes a virtual host keeps for all its channels; found anew when there are more."""

LINK_UNCONFIRMED_BYTES_MAX: Final = 33_554_432
"""Publishes on their way to another node, not confirmed by it yet: beyond it publishers wait."""

LINK_MESSAGE_BYTES: Final = 512
"""What a message counts on a link besides its body, so that empty ones are bounded too."""

LINK_UNCONFIRMED_MAX: Final = 131_072
"""More than that many publishes are never unconfirmed on one link."""

LINK_HANDLES_MAX: Final = 65_534
"""Queues of one other node that are in use at the same time."""

MIRROR_CHANNEL: Final = 65_535
"""The channel of a link on which copies of mirrored queues talk to each other."""

LINK_WINDOW_DELIVERIES: Final = 512
"""Deliveries to one consumer on another node that it has not passed on to its client yet."""

MIRROR_TIMEOUT_MS: Final = 2_000
"""`warren.mirror_timeout` if it is not set. Publishers wait for a mirror that is silent; where
machines hold up healthy nodes for longer than a second, set more."""
