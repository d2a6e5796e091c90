"""Which of several operators plans: one at a time, by a Lease."""
