#!/usr/bin/env python3
"""A node (src/measure/fleet/node_server.h) that sleeps in place of measuring.

    sleeping_node.py MILLISECONDS [COMPILE_MILLISECONDS]    for each trial, and for each compilation

HEDDLE_FLEET_WORKER names it to the actors.
"""
import os
import sys
import time

from heddle_fleet import frames


def read(count):
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def say(request, message):
    data = frames.pack({**message, "id": request.get("id", 0)})
    while data:
        data = data[os.write(1, data) :]


def main():
    seconds = float(sys.argv[1]) * 1e-3
    compile_seconds = float(sys.argv[2]) * 1e-3 if len(sys.argv) > 2 else 0
    while True:
        header = read(frames.HEADER)
        request = frames.unpack(bytearray(header + read(frames.length_in(header))))
        what = request["do"]
        if what == "hello":
            say(request, {"started": request["version"], "machine": "asleep", "build": ""})
        elif what == "task":
            say(request, {"started": request["task"]})
        elif what == "compile":
            time.sleep(compile_seconds)
            say(request, {"seconds": compile_seconds, "code": {}})
        else:
            results = []
            time.sleep(seconds * len(request["candidates"]))
            for candidate in request["candidates"]:
                results.append({"seconds": [1e-3, 1e-3], "cut_off": False, "base": 2e-3, "compile": 0.0})
                results[-1].update({"run": seconds, "check": 0.0, "trial": candidate["trial"]})
            for result in results:
                say(request, result)
            say(request, {"done": True})


if __name__ == "__main__":
    main()
