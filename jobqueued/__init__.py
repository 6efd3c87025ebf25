"""A durable job queue in one process and one file."""

__version__ = "0.1.0"
