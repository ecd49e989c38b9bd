"""Metrics for Prometheus, by RabbitMQ's names, and histograms of the broker's own."""
