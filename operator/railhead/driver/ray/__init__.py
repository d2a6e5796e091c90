"""The only room that knows Ray's internals: adapters that read, replace or subclass them, with types for the rest."""
