"""Inside Ray Train's controller: our callbacks, failure policy and scaling policy, and the logic behind them."""
