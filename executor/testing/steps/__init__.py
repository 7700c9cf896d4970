"""Steps: what can be done to an executor and to the world around it. One module for each key."""
