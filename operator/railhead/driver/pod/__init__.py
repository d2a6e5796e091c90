"""The worker pod's process, the init container's, and what the head shares with them."""
