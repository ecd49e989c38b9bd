"""The stores of a standby: a restore that goes on."""
