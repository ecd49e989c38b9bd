"""A standby: a node that follows a second place, and becomes the broker when it is told to."""
