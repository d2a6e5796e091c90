"""Gangs: the pods of an attempt that a scheduler gives nodes at once, or not at all."""
