"""The version of this program, and of the data directory it writes."""

VERSION = "0.1.0"

# Raised whenever an older program could misread a newer one's data directory; `meta.properties` carries it.
DATA_VERSION = 1
