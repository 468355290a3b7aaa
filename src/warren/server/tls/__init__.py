"""TLS for AMQP, HTTP and links: what is configured, contexts, handshakes, certificates."""
