"""Actors of a real cluster that give jobs trouble, one file each. Texts and field values are those of Kubernetes 1.36.

They act through the API server only; `World` has what is not in it: a machine that is switched off, a broken network.
"""
