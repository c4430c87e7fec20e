"""Roost: a self-optimising content-based publish/subscribe system.

Importing `roost` itself costs nothing; import the package that you need (`roost.language`, ...).
"""

# The one place that says the version; the build reads it from here.
__version__ = "0.1.0"
