"""Rules: decisions only. Pure functions over values; no clock, disk, process or network."""
