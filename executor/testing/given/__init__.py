"""Given: what a case starts from. One module for each key; see `executor.testing.parts`."""
