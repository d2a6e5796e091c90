"""The run's storage, before training."""
