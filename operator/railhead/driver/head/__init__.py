"""The driver's own process, in the head pod."""
