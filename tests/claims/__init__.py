"""Claims of five articles about RabbitMQ, by number, each tried on nodes or in the simulator."""
