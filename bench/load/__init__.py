"""Load: generators, and the broker that is measured."""
