"""The HTTP API: parse, check who asks, hand to the engine, answer. Nothing is decided here."""
