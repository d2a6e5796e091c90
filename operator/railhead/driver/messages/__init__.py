"""Texts for others."""
