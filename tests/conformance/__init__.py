"""Every peer's numbers, query by query, under its preset."""
