"""A broker that runs out of disk, memory, descriptors and time, while clients do everything they can."""
