"""Development tools: generated sources, compiled core, distributions, the walk of a publish."""
