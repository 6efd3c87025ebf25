"""Talks to a daemon over HTTP; standard library only, so that small commands start fast."""
