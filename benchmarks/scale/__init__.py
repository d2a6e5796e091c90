"""`make bench-scale`: operators and many jobs, on a real API server without a scheduler and kubelets."""
