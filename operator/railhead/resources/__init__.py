"""Pure builders: turn a TrainJob's spec into Pods, a Service, a Secret and ConfigMaps, as plain dicts."""
