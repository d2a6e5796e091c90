"""Railhead: a Kubernetes operator for distributed training with Ray Train."""

from railhead._version import __version__ as __version__
