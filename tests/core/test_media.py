"""Image headers, written by hand from the formats' layouts."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.text.media import base64_head, image_pixels, media_type

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (9000).to_bytes(4, "big") + (7).to_bytes(4, "big")
GIF = b"GIF89a" + (320).to_bytes(2, "little") + (200).to_bytes(2, "little")
EXIF = b"\xff\xe1\x00\x0b" + b"\xff\xc0\x00\x11\x08\x00\x01\x00\x01"  # a thumbnail's frame header inside the block
JPEG = b"\xff\xd8" + EXIF + b"\xff\xc2\x00\x11\x08" + (480).to_bytes(2, "big") + (640).to_bytes(2, "big")
WEBP = b"RIFF\x00\x00\x00\x00WEBP"
VP8X = WEBP + b"VP8X\x0a\x00\x00\x00\x00\x00\x00\x00" + (2999).to_bytes(3, "little") + (1999).to_bytes(3, "little")
VP8L = WEBP + b"VP8L\x00\x00\x00\x00\x2f" + (99 | 49 << 14).to_bytes(4, "little") + bytes(8)
VP8 = WEBP + b"VP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a" + (12).to_bytes(2, "little") + (34).to_bytes(2, "little")


@pytest.mark.parametrize(
    ("data", "kind", "pixels"),
    [
        (PNG, "image/png", (9000, 7)),
        (GIF, "image/gif", (320, 200)),
        (JPEG, "image/jpeg", (640, 480)),
        (VP8X, "image/webp", (3000, 2000)),
        (VP8L, "image/webp", (100, 50)),
        (VP8, "image/webp", (12, 34)),
        (b"%PDF-1.7", "application/pdf", None),
        (b"hello", None, None),
        (b"", None, None),
    ],
)
def test_type_and_sides_are_read_from_the_header(data: bytes, kind: str | None, pixels: tuple[int, int] | None) -> None:
    assert media_type(data) == kind
    assert image_pixels(data) == pixels


@given(st.sampled_from([PNG, GIF, JPEG, VP8X, VP8L, VP8]), st.integers(0, 40))
def test_a_truncated_header_gives_no_size_rather_than_a_wrong_one(data: bytes, n: int) -> None:
    assert image_pixels(data[:n]) in (None, image_pixels(data))


@given(st.sampled_from([b"", PNG[:16], GIF[:6], JPEG[:3], VP8X[:16], VP8L[:16], VP8[:16]]), st.binary(max_size=80))
def test_any_bytes_give_two_sides_or_nothing(beginning: bytes, data: bytes) -> None:
    """A side is what its field can hold: never negative, never more than four bytes."""
    sides = image_pixels(beginning + data)

    assert sides is None or (len(sides) == 2 and all(0 <= side < 1 << 32 for side in sides))


@given(st.binary(max_size=60))
def test_a_thumbnail_before_the_frame_is_not_mistaken_for_the_image(inside: bytes) -> None:
    segment = b"\xff\xe1" + (len(inside) + 2).to_bytes(2, "big") + inside

    assert image_pixels(JPEG[:2] + segment + JPEG[2:]) == (640, 480)


@given(st.binary(max_size=200), st.integers(0, 220))
def test_the_head_is_the_beginning_of_what_was_encoded(data: bytes, n: int) -> None:
    assert base64_head(base64.b64encode(data).decode(), n) == data[:n]
    assert base64_head(base64.urlsafe_b64encode(data).decode(), n) == data[:n]


@given(st.binary(min_size=3, max_size=60), st.text(alphabet=" \r\n\t*é\ud800", max_size=8))
def test_white_space_and_foreign_characters_are_skipped(data: bytes, junk: str) -> None:
    text = base64.b64encode(data).decode()
    assert base64_head(junk + text[:2] + junk + text[2:], len(data)) == data


def test_a_data_url_prefix_is_not_data() -> None:
    text = "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert image_pixels(base64_head(text, 64)) == (9000, 7)


@given(st.text(max_size=60), st.integers(0, 30))
def test_any_text_gives_bytes(text: str, n: int) -> None:
    assert len(base64_head(text, n)) <= n
