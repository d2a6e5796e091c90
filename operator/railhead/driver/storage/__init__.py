"""The run's storage, as seen before training."""
