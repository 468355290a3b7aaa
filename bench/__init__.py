"""Measures Warren and RabbitMQ side by side, in one run on one machine; see scripts/bench."""
