"""Power failures: a record of a broker's disk operations, and the disk states that a failure may leave."""
