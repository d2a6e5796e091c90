"""Inside Ray Train's controller: our callback, failure policy and scaling policy, and what they decide by."""
