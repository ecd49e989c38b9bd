"""Metrics for Prometheus, by RabbitMQ's names, and Leveret's own histograms."""
