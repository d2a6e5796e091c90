"""The version of Railhead: of the package, the chart, the CRD and the images of one release."""

__version__ = "0.1.0"
