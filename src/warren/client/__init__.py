"""Client side of Warren's protocols, AMQP 0-9-1 and the HTTP API, without any of the broker."""
