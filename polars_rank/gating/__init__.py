"""`gate`: rules about one retriever, from a golden file, its results and a baseline."""
