"""Reports: what became of mutants, for viewers, CI servers and people. Each is a pure function."""
