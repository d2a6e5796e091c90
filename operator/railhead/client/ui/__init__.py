"""The page of `railhead ui`. Only this package knows NiceGUI."""
