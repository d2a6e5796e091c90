"""Code that runs inside a job's pods: the entry point of both roles, and Ray Train's driver.

Standard library and Ray only, Python 3.9 and newer: the modules ship in the bundle and run in
images that contain nothing of ours. Each use of Ray's internals is confined to one file.
"""
