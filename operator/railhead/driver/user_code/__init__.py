"""The user's own modules: where they are, whether they are usable, and how to load them."""
