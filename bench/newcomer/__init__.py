"""A newcomer follows README in a root directory that has nothing."""
