"""The output of the ranks, on its way to `kubectl logs`."""
