"""Messages as src/measure/process/channel.h frames them: "HDW" and a version, a length, JSON."""
import json
import struct

MAGIC = b"HDW2"
HEADER = len(MAGIC) + 4
LONGEST = 256 << 20


class FrameError(Exception):
    """The received bytes are not a message."""


def pack(message):
    text = json.dumps(message, separators=(",", ":")).encode()
    if len(text) > LONGEST:
        raise FrameError(f"a message of {len(text)} bytes is too long")
    return MAGIC + struct.pack("<I", len(text)) + text


def length_in(header):
    """The length of the text after a header."""
    if header[: len(MAGIC)] != MAGIC:
        raise FrameError("what arrived is no frame of a message, or one of another version")
    (length,) = struct.unpack("<I", header[len(MAGIC) :])
    if length > LONGEST:
        raise FrameError(f"a message of {length} bytes")
    return length


def unpack(buffer):
    """Removes the first whole message from a bytearray; None where there is none yet."""
    if len(buffer) < HEADER:
        return None
    end = HEADER + length_in(bytes(buffer[:HEADER]))
    if len(buffer) < end:
        return None
    message = json.loads(bytes(buffer[HEADER:end]))
    del buffer[:end]
    return message
