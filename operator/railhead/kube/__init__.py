"""The only place that talks HTTP to the API server: verbs on plain dicts, errors as outcomes, informer."""
