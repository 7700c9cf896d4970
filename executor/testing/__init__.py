"""Testing: what teams import to test their own manifests. Empty so far."""
