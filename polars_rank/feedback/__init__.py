"""What users did with the lists they were shown: labels, preferences, bias and interleaving."""
