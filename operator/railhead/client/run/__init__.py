"""Reads what a run leaves: logs, metrics, checkpoints."""
