"""How the command line explains itself: what there is, examples, and what a word may have meant."""
