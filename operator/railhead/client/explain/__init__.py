"""Explains what a job does, and why."""
