"""Administration of a broker: commands, views, kinds of definitions, definitions files."""
