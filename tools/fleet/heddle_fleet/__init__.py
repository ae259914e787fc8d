"""Tuning on many machines, through Ray: the bridge of a tuner, and the actors on nodes."""
