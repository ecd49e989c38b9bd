"""What each verb of `rabbitmqctl`, `rabbitmq-diagnostics` and the others does, one file per subject."""
