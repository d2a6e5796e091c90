"""The only package that talks HTTP to the API server: verbs on plain dicts, typed errors, informer."""
