"""The contract between operator and driver.

Standard library only, Python 3.9 and newer: the driver bundle carries these modules into
images that contain no part of Railhead.
"""
