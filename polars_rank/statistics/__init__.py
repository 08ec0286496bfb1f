"""What the values of many lists say: bounds, overlap, groups."""
