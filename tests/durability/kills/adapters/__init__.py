"""Client libraries as the scenarios see them, and what each client saw."""
