"""Power failures: a record of what a broker did to its disk, and the disks that a failure may leave."""
