"""Numbered steps from an empty file to the present schema."""
