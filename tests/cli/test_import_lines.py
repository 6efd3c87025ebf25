"""Lines of an import, whatever is in them: found, kept when rejected, and read again."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobqueued.cli import import_source as subject
from jobqueued.cli.import_lines import BadLine, Keys, LineReader, rejection, unwrapped
from jobqueued.cli.import_source import Piece, Source

chosen = settings(max_examples=200, derandomize=True, database=None, deadline=None)
texts = st.binary(max_size=30) | st.sampled_from(
    [b'{"type":"a"}', b"[]", b"  ", b"\xff\xfe", b'{"reasons":[],"line":1}', b'"\\ud800"', b"null"]
)


def pieces(path: Path, most: int = 100) -> list[list[Piece]]:
    """Every batch of a file."""

    async def take() -> list[list[Piece]]:
        with path.open("rb", buffering=0) as file:
            source, batches = Source(file.fileno(), most), []
            while batch := await source.take():
                batches.append(batch)
            return batches

    return asyncio.run(take())


@given(content=st.lists(texts).map(b"\n".join), chunk=st.integers(1, 9), most=st.integers(1, 5))
@chosen
def test_no_line_is_lost_or_changed_however_it_is_read(
    content: bytes, chunk: int, most: int
) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject, "CHUNK", chunk)
        path = Path(place, "lines")
        path.write_bytes(content)
        batches = pieces(path, most)
    assert all(1 <= len(batch) <= most for batch in batches)
    lines = content.split(b"\n")
    found = {piece.number: piece for batch in batches for piece in batch}
    assert sorted(found) == [n for n, line in enumerate(lines, 1) if line.strip()]
    for number, piece in found.items():
        assert piece.text == lines[number - 1].strip()
        assert content[piece.start : piece.end].strip() == piece.text


@pytest.mark.parametrize("extra", [-1, 0, 1, 50])
def test_a_line_is_too_long_by_its_length_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: int
) -> None:
    monkeypatch.setattr(subject, "LONGEST_LINE", 20)
    monkeypatch.setattr(subject, "CHUNK", 7)
    long = b"x" * (20 + extra)
    (tmp_path / "lines").write_bytes(b"a\n" + long + b"\nb\n" + long)
    found = [piece.text for batch in pieces(tmp_path / "lines") for piece in batch]
    kept = None if extra > 0 else long
    assert found == [b"a", kept, b"b", kept]


@given(text=texts.map(bytes.strip).filter(bool))
@chosen
def test_a_rejected_line_is_read_again_as_it_was(text: bytes) -> None:
    kept = rejection(Piece(7, text, 0, len(text)), ["because"])
    entry = json.loads(kept)
    assert (entry["line"], entry["reasons"]) == (7, ["because"])
    assert b"\n" not in kept
    assert unwrapped(Piece(1, kept, 0, len(kept))).text == text


def body(reader: LineReader, text: bytes) -> dict[str, object]:
    document: dict[str, object] = json.loads(reader.read(Piece(1, text, 0, len(text))).body)
    return document


def test_what_a_daemon_says_of_a_job_is_left_out_and_does_not_change_its_key() -> None:
    once, later = (
        b'{"id":"x","type":"a","status":"pending","payload":[1],"attempt":0,"key":null}',
        b'{"id":"x","type":"a","status":"dead","payload":[1],"attempt":3,"last_error":"no"}',
    )
    first, second = body(LineReader("f", None), once), body(LineReader("f", None), later)
    assert first == second
    assert first.keys() == {"type", "payload", "idempotency_key"}
    other = body(LineReader("f", None), once.replace(b'"x"', b'"y"'))
    assert other["idempotency_key"] != first["idempotency_key"]


def test_an_own_key_stays() -> None:
    given_key = body(LineReader("f", None), b'{"type":"a","idempotency_key":"mine"}')
    assert given_key["idempotency_key"] == "mine"


def test_keys_count_what_is_there_twice_and_know_their_import() -> None:
    keys = Keys("f")
    same = [keys.key(b"a") for _ in range(3)]
    assert len({*same, keys.key(b"b")}) == 4
    again = Keys("f")
    assert [again.key(content) for content in (b"b", b"a", b"a", b"a")][1:] == same
    assert Keys("g").key(b"a") not in same
    assert max(map(len, same)) <= 256


def test_what_is_no_job_is_told_before_anything_is_sent() -> None:
    for text in (b"{", b"[]", b"\xff", b"{" + b'"a":[' * 5_000):
        with pytest.raises(BadLine):
            body(LineReader("f", None), text)
