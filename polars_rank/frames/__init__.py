"""Tables of Polars and other libraries, their order of rows, and batches of rankings."""
