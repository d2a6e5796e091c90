"""What a process of the driver finds around it."""
