"""Inside one rank's process: the user's function, what surrounds it, and how it ended."""
