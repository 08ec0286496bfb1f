"""`check` and `gate`: rules about results, golden files and baselines."""
