"""The rehearsal of definitions and of a rabbitmq.conf, without a broker. Decision 60."""
