"""What runs inside a job's pods: their entry point in both roles, and Ray Train's driver.

Standard library and Ray only, Python 3.9 and newer: the modules travel in the bundle into
images that hold nothing of ours. What reaches into Ray's internals is one file each.
"""
