"""Help of the command line: overviews, examples, suggestions for unknown words."""
