"""Inputs that become the long table: Parquet, text, lists, arrays, dictionaries, judgments."""
