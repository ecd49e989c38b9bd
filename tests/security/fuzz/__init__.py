"""Inputs that nobody would write, for everything that reads what others wrote.

A target (`targets.py`) takes an input apart by making choices, and checks what must hold whatever they were. Who makes
the choices is not its business: hypothesis in `make test`, the coverage-guided fuzzer in `make fuzz`, a file of
`corpus/` when what was once found is looked at again.
"""
