"""Secrets that sign webhooks: read from their text form, never shown."""

from __future__ import annotations

import binascii

PREFIX = "whsec_"


class Secret(bytes):
    """The bytes of a secret; whatever prints it shows none of them."""

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__


def decode_secret(text: str) -> Secret:
    """The bytes that `whsec_BASE64` stands for, or those of any other text as it is.

    The ValueError says what is wrong, without a word of the secret.
    """
    if not text.strip():
        raise ValueError("is empty")
    if not text.startswith(PREFIX):
        return Secret(text.encode())
    try:
        secret = binascii.a2b_base64(text.removeprefix(PREFIX), strict_mode=True)
    # Text that is not ASCII raises a plain ValueError.
    except ValueError:
        raise ValueError(f"has something other than base64 after {PREFIX}") from None
    if not secret:
        raise ValueError(f"has nothing after {PREFIX}")
    return Secret(secret)
