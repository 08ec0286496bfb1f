"""Tables of any kind: lazy in, lazy out."""
