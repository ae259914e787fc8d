"""The first messages between a tuner and its bridge."""
import asyncio
import os
import socket

from . import frames

CHANNEL = 3


def _receive_exactly(channel, count):
    data = b""
    while len(data) < count:
        part = channel.recv(count - len(data))
        if not part:
            return None
        data += part
    return data


def without_token():
    """What Ray does not say: a cluster with a token refuses those who do not show it."""
    if os.environ.get("RAY_AUTH_MODE"):
        return ""
    return "; a cluster that was started with a token needs RAY_AUTH_MODE=token and that token here as well"


def serve_tuner(no_ray, how):
    """Serves until the tuner ends. `no_ray` is the reason why there is no Ray, or None."""
    channel = socket.socket(fileno=CHANNEL)
    header = _receive_exactly(channel, frames.HEADER)
    if header is None:
        return 0
    body = _receive_exactly(channel, frames.length_in(header))
    if body is None:
        return 0
    hello = frames.unpack(bytearray(header + body))
    refusal = no_ray
    if refusal is None:
        from . import cluster

        try:
            cluster.connect(hello["fleet"]["address"], {hello["fleet"]["resource"]: 1})
        except Exception as error:  # whatever Ray throws: the tuner says it to a person
            refusal = f"no cluster at '{hello['fleet']['address']}': {error}"
            how = "`heddle fleet up` makes one of this machine; docs/guide/fleets.md says how to join others"
            how += without_token()
    started = {"is": "started"}
    if refusal is not None:
        channel.sendall(frames.pack({**started, "message": refusal, "help": how}))
        return 2
    channel.sendall(frames.pack(started))
    from .bridge import Bridge

    asyncio.run(Bridge(channel, hello).serve())
    return 0
