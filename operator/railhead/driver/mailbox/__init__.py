"""What the processes of the head pod tell each other."""
