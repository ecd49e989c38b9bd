"""Mistakes that are planted in a broker, against one promise each, whose tests must find it."""
