"""Effects: what touches the world. Decisions arrive made; here they become files and processes."""
