"""What Spark needs to read from and write to AMQP 0-9-1 brokers, and to read Leveret's event log."""
