"""Comparison with other tools, ranking by ranking, with the preset of each tool."""
