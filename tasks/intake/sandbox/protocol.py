"""Frames the messages between the worker and the child: a JSON header and a body of bytes, each prefixed by its length.

The document travels in the body only, over an anonymous pipe: never in an argument, the environment or a file.
"""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import Any, BinaryIO

_LENGTHS = struct.Struct(">IQ")
_MAX_HEADER = 64 * 1024


class Ending(IntEnum):
    """Lists the exit codes of a child whose fork ended without a response. They say what the document did."""

    TOO_SLOW = 65
    TOO_MUCH_MEMORY = 66
    DAMAGED = 67
    KILLED = 68  # from outside, which says nothing about the document


class BrokenMessage(Exception):
    """Raised when the bytes from the pipe are not one of our messages, or larger than the limit."""


def pack(header: dict[str, Any], body: bytes = b"") -> bytes:
    encoded = json.dumps(header).encode("ascii")
    return _LENGTHS.pack(len(encoded), len(body)) + encoded + body


def unpack(buffer: bytearray, max_body: int) -> tuple[dict[str, Any], bytes] | None:
    """Return the message in `buffer`; None while it is incomplete. Raises BrokenMessage."""
    if len(buffer) < _LENGTHS.size:
        return None
    header_size, body_size = _LENGTHS.unpack_from(buffer)
    if header_size > _MAX_HEADER or body_size > max_body:
        raise BrokenMessage
    begin = _LENGTHS.size + header_size
    if len(buffer) < begin + body_size:
        return None
    return _header(bytes(buffer[_LENGTHS.size : begin])), bytes(buffer[begin : begin + body_size])


def receive(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Wait for one message on a blocking stream. Returns None if the other side is gone; raises BrokenMessage."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header_size, body_size = _LENGTHS.unpack(lengths)
    if header_size > _MAX_HEADER:
        raise BrokenMessage
    header, body = stream.read(header_size), stream.read(body_size)
    if len(header) + len(body) < header_size + body_size:
        return None
    return _header(header), body


def _header(encoded: bytes) -> dict[str, Any]:
    try:
        header = json.loads(encoded)
    except ValueError:
        raise BrokenMessage from None
    if not isinstance(header, dict):
        raise BrokenMessage
    return header
