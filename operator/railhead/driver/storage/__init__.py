"""The run's storage: claims, checkpoints, history, and calls that wait for it."""
