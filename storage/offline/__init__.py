"""Reading stores that no broker has open."""
