"""What Prometheus is told, with the names of RabbitMQ's rabbitmq_prometheus plugin."""
