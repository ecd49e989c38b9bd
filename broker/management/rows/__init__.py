"""What the API shows of each kind of thing, as tables of columns."""
