"""What tests and measurements share: brokers to work on, clients that say exactly what they are told, attacks."""
