"""RabbitMQ's own command lines, for scripts and health checks: its options, banners, forms of output and exit codes."""
