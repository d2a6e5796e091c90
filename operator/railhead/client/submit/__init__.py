"""Creates and changes jobs."""
