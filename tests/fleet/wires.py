"""Network namespaces of this machine, joined by a switch that delays, loses and cuts: what `tc netem`
does where the kernel has it. The switch is a thread that carries frames between the ends of veth pairs.

Needs root (or the capabilities for namespaces and raw sockets); unavailable() says what is missing.
"""
import array
import fcntl
import heapq
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import threading
import time

ALL_PROTOCOLS = 3
LONGEST_FRAME = 1 << 16
SIOCETHTOOL = 0x8946
# Checksums and segments that hardware would make; a frame on these wires must have them already.
OFFLOADS = {"checksums": 0x17, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}
PREFIX = f"hdl{os.getpid()}"


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def _without_offloads(device):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in OFFLOADS.values():
            value = array.array("B", struct.pack("II", command, 0))
            fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", device.encode(), value.buffer_info()[0]))


def unavailable():
    """Why there can be no such network here; None: there can."""
    name = f"{PREFIX}try"
    try:
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except FileNotFoundError:
        return "there is no program 'ip' (iproute2)"
    except (subprocess.CalledProcessError, PermissionError) as error:
        return f"no network namespaces: {getattr(error, 'stderr', None) or error}".strip()
    return None


def remove_leftovers():
    """Namespaces of tests that were killed."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for name in re.findall(r"^hdl\d+\w*", listed, re.MULTILINE):
        if not os.path.exists(f"/proc/{re.search(r'[0-9]+', name)[0]}"):
            _end(name)


def _end(name):
    """A namespace, and everything that runs in it."""
    _kill_all(name)
    _ip("netns", "delete", name)  # with its ends of pairs, and so the other ones


def _kill_all(name):
    while True:
        listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        pids = [int(pid) for pid in listed.stdout.split()]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not pids:
            return
        time.sleep(0.05)


class Switch:
    def __init__(self, delay=0.0, loss=0.0):
        self.delay, self.loss = delay, loss
        self.cut = set()  # ports that nothing gets through
        self._ports, self._places = {}, {}
        self._late = []  # heap of (when, number, port, frame)
        self._count = 0
        self._ended = False
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def add(self, name, device):
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        port.bind((device, ALL_PROTOCOLS))
        self._ports[name] = port

    def start(self):
        self._thread.start()

    def end(self):
        self._ended = True
        self._thread.join()
        for port in self._ports.values():
            port.close()

    def _carry(self):
        names = {port: name for name, port in self._ports.items()}
        while not self._ended:
            wait = min(0.1, max(0, self._late[0][0] - time.monotonic())) if self._late else 0.1
            for port in select.select(list(names), [], [], wait)[0]:
                try:
                    frame, (_, _, kind, *_) = port.recvfrom(LONGEST_FRAME)
                except OSError:  # its machine ended
                    del names[port]
                    continue
                if kind != socket.PACKET_OUTGOING:  # what this switch itself sent
                    self._take(names[port], frame)
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, name, frame = heapq.heappop(self._late)
                self._give(name, frame)

    def _take(self, name, frame):
        if name in self.cut or random.random() < self.loss:
            return
        target, source = frame[:6], frame[6:12]
        self._places[source] = name
        known = self._places.get(target)
        for other in [known] if known else [n for n in self._ports if n != name]:
            self._count += 1
            heapq.heappush(self._late, (time.monotonic() + self.delay, self._count, other, frame))

    def _give(self, name, frame):
        if name in self.cut:
            return
        try:
            self._ports[name].send(frame)
        except OSError:
            pass  # the other end is gone, or its queue is full: the frame is lost


class Machine:
    """A namespace with an address of its own."""

    def __init__(self, switch, number):
        self.name = f"{PREFIX}n{number}"
        self.address = f"10.213.0.{number}"
        outside, inside = f"{PREFIX}o{number}", f"{PREFIX}i{number}"
        _ip("netns", "add", self.name)
        _ip("link", "add", outside, "type", "veth", "peer", "name", inside)
        _without_offloads(outside)
        _without_offloads(inside)
        _ip("link", "set", inside, "netns", self.name)
        _ip("-n", self.name, "address", "add", f"{self.address}/24", "dev", inside)
        for device in ("lo", inside):
            _ip("-n", self.name, "link", "set", device, "up")
        _ip("link", "set", outside, "up")
        switch.add(self.name, outside)

    def command(self, words):
        return ["ip", "netns", "exec", self.name, *words]

    def kill_all(self):
        """Everything that runs in it."""
        _kill_all(self.name)

    def end(self):
        _end(self.name)
