"""The entry point `fetch`: brings a commit of spec.source.git into a pod before its container starts."""
