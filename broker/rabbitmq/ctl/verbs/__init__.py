"""The verbs of `rabbitmqctl`, `rabbitmq-diagnostics` and the others, one file per subject."""
