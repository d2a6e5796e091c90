"""Pure builders: a TrainJob's spec becomes pods, a service, a secret and ConfigMaps, as plain dicts."""
