from __future__ import annotations

import base64
import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from jobqueued.model.webhook_secret import Secret, decode_secret


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("whsec_AAEC", b"\x00\x01\x02"),
        ("whsec_AA==", b"\x00"),
        ("plain text", b"plain text"),
        ("WHSEC_AAEC", b"WHSEC_AAEC"),
        ("schlüssel", "schlüssel".encode()),
        (" surrounded ", b" surrounded "),
    ],
)
def test_secrets(text: str, secret: bytes) -> None:
    assert decode_secret(text) == secret


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" \t\n", "is empty"),
        ("whsec_", "has nothing after whsec_"),
        ("whsec_AA", "has something other than base64 after whsec_"),
        ("whsec_AAEC ", "has something other than base64 after whsec_"),
        ("whsec_-_-_", "has something other than base64 after whsec_"),
        ("whsec_é", "has something other than base64 after whsec_"),
    ],
)
def test_what_is_no_secret(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        decode_secret(text)


@given(st.binary(min_size=1))
def test_any_bytes_have_a_text_form(secret: bytes) -> None:
    assert decode_secret(f"whsec_{base64.b64encode(secret).decode()}") == secret


@given(st.text())
def test_any_text_is_a_secret_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert decode_secret(text)


class Holder(msgspec.Struct):
    secret: bytes


def test_a_secret_is_never_shown() -> None:
    secret = decode_secret("tell-nobody")
    shown = [repr(secret), str(secret), format(secret), f"{secret!r}"]
    shown += [repr(Holder(secret)), pretty_repr(Holder(secret)), repr((secret,))]
    assert all("tell-nobody" not in text and "Secret(…)" in text for text in shown)


def test_secrets_compare_like_bytes() -> None:
    assert Secret(b"a") == b"a"
    assert hash(Secret(b"a")) == hash(b"a")
