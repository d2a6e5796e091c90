"""The entry point `fetch`: fetches the commit of spec.source.git into a pod before its container starts."""
