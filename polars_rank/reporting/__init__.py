"""Results in words and curves."""
