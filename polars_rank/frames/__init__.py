"""Tables of Polars, other libraries and engines, their order of rows, and batches of rankings."""
