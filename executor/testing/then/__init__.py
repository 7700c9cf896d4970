"""Then: what can be expected. One module for each key; each gives the points that are not so."""
