"""Mistakes that are planted in a broker, each against one promise, whose tests must find it: else they prove nothing."""
