"""Forward-only SQL for the definitions store, and the code that applies it."""
