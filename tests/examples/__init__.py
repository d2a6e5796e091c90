"""The examples of manifests/examples: their manifests, and those that need GPUs on CPUs."""
