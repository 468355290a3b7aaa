"""The management HTTP API: RabbitMQ's paths and JSON, over a node in the same process."""
