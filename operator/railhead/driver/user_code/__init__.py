"""The user's own modules: where they are, whether they can be used, and how they are loaded."""
