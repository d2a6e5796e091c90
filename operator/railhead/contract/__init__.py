"""What the operator and the driver say to each other.

Standard library only, Python 3.9 and newer: these modules travel inside the driver
bundle into images that hold nothing of ours.
"""
