"""Actions of the commands of `rabbitmqadmin` version 2, by subject."""
