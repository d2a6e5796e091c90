"""Ray's own processes in a pod: the arguments and ports they start with, and how to find them."""
