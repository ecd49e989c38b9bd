"""The rehearsal of a later series of RabbitMQ: its rules, and what was seen of them. Decision 60."""
