"""From a log to the values of each ranking, and to their means."""
