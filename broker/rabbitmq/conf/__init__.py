"""Settings in the format of rabbitmq.conf, and the file enabled_plugins."""
