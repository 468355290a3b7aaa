"""The Java client's own functional tests, run against RabbitMQ and Warren: see `__main__`."""
