#!/usr/bin/env python3
"""Stands in for heddle-fleet (src/measure/fleet/bridge.h): devices and compilers that only sleep, without Ray.

    HEDDLE_FLEET=bench/fleet/sleeping_bridge.py \
    HEDDLE_SLEEP='{"devices": 2, "compilers": 26, "trial": 0.036, "compile": 0.6}' \
        heddle tune matmul:4096x4096x4096 --dtype f16 --target 'cuda -arch=sm_90' --fleet auto

The search is that of a true run, so what the summary says of waiting is what the driver, the number of compilers and
their times make of it. Times vary around their means by half, and the kernels' by a hash of their steps.
"""
import asyncio
import hashlib
import json
import os
import random
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "tools", "fleet"))
from heddle_fleet import frames  # noqa: E402

CHANNEL = 3
DEFAULTS = {"devices": 2, "compilers": 26, "trial": 0.036, "compile": 0.6, "start": 0.0}
STATIC_SECONDS = 230e-6


def some(mean):
    return mean * random.uniform(0.5, 1.5)


def kernel_seconds(steps):
    """0.97 to 3 times that of the static choice, most of them slow."""
    digest = hashlib.sha256(json.dumps(steps, sort_keys=True).encode()).digest()
    return STATIC_SECONDS * (0.97 + 2 * (int.from_bytes(digest[:4], "little") / 2**32) ** 0.5)


class Bridge:
    def __init__(self, reader, writer, settings):
        self.reader, self.writer, self.settings = reader, writer, settings
        self.jobs = asyncio.PriorityQueue()  # (whether it is only announced, job)
        self.dropped = set()
        self.rounds = {f"asleep#{i}": asyncio.Queue() for i in range(settings["devices"])}

    def say(self, kind, **message):
        self.writer.write(frames.pack({"is": kind, **message}))

    async def receive(self):
        header = await self.reader.readexactly(frames.HEADER)
        return frames.unpack(bytearray(header + await self.reader.readexactly(frames.length_in(header))))

    async def compile(self):
        while True:
            _, job = await self.jobs.get()
            if job in self.dropped:
                continue
            seconds = some(self.settings["compile"])
            await asyncio.sleep(seconds)
            self.say("job", job=job, seconds=seconds)

    async def measure(self, device):
        self.say("device", device=device, machine="asleep")
        while True:
            request = await self.rounds[device].get()
            results = []
            for candidate in request["candidates"]:
                seconds = some(self.settings["trial"])
                await asyncio.sleep(seconds)
                kernel = kernel_seconds(candidate["steps"])
                results.append({"is": "result", "trial": candidate["trial"], "seconds": [kernel, kernel], "cut_off": False})
                results[-1].update({"base": STATIC_SECONDS, "compile": 0.0, "run": seconds, "check": 0.0})
            self.say("round", round=request["round"], device=device, results=results)

    async def serve(self):
        await self.receive()  # the hello
        self.say("started")
        self.say("compilers", count=self.settings["compilers"])
        running = [asyncio.ensure_future(self.compile()) for _ in range(self.settings["compilers"])]
        await asyncio.sleep(self.settings["start"])
        running += [asyncio.ensure_future(self.measure(device)) for device in self.rounds]
        while (message := await self.receive())["do"] != "end":
            if message["do"] == "compile":
                self.jobs.put_nowait((not message["urgent"], message["job"]))
            elif message["do"] == "drop":
                self.dropped.update(message["jobs"])
            elif message["do"] == "measure":
                self.rounds[message["device"]].put_nowait(message)


async def main():
    settings = {**DEFAULTS, **json.loads(os.environ.get("HEDDLE_SLEEP", "{}"))}
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=CHANNEL))
    try:
        await Bridge(reader, writer, settings).serve()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the tuner ended


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)
