"""Single packages, without a whole broker round them."""
