"""Faults that a test orders: a table of them, the orders, and what obeys them where the server would do right."""
