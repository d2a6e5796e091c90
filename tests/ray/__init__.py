"""Tests with real Ray processes."""
