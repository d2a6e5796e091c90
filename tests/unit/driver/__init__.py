"""Tests of the driver without a Ray cluster."""
