"""The command line's verbs, one file per subject; imported only when they are used."""
