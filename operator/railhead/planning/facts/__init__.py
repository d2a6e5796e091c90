"""What observations mean: pure functions without a decision."""
