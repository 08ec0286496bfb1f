"""Everything that becomes the long table: Parquet logs, list columns, judgments, TREC files."""
