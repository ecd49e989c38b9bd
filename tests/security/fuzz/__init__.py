"""Inputs that nobody would write, for everything that reads what others wrote.

A target takes an input apart by making choices, and checks what must hold whatever they were. The bytes behind the
choices are random in `make test`, the coverage-guided fuzzer's in `make fuzz`, and a file of `corpus/` when what was
once found is looked at again.
"""
