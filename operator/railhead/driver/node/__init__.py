"""Ray's own processes of a pod: with which arguments and ports they start, and how they are found."""
