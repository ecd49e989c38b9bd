"""`rabbitmqctl`, `rabbitmq-diagnostics` and the others: their options, banners, forms of output and exit codes."""
