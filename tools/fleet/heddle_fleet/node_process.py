"""A node (src/measure/messages/fleet.h): the process that compiles and measures, asked over pipes."""
import os
import select
import shutil
import subprocess
import tempfile
import time

from . import frames

START_SECONDS = 60


class NodeDied(Exception):
    """The process ended, or did not answer in time and was killed."""


def worker_command(tuners):
    """What serves as a worker here: HEDDLE_FLEET_WORKER, the tuner's own program where it is at the
    same place here, or `heddle worker`."""
    named = os.environ.get("HEDDLE_FLEET_WORKER")
    if named:
        return named.split()
    library = [word.split("=", 1)[1] for word in tuners if word.startswith("--library=")]
    if all(os.path.exists(path) for path in (tuners[0], *library)):
        return tuners
    heddle = shutil.which("heddle")
    if heddle:
        return [heddle, "worker"]
    raise NodeDied(f"there is no heddle in PATH, no {tuners[0]}, and HEDDLE_FLEET_WORKER is not set")


class NodeProcess:
    def __init__(self, command, hello, tasks, environment=None):
        self._words = tempfile.TemporaryFile()
        self._buffer = bytearray()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._words}
        self._process = subprocess.Popen(command, env=environment, bufsize=0, **pipes)
        self.about = self.ask(hello, START_SECONDS)[0]
        if "message" in self.about:
            self.kill()
            raise NodeDied(self.about["message"])
        for message in tasks:
            self.ask(message, START_SECONDS)

    def ask(self, request, seconds):
        """The answers of a request: one, or all up to the one that says that it is done."""
        many = request["do"] == "measure"
        deadline = time.monotonic() + seconds
        try:
            self._process.stdin.write(frames.pack(request))
        except OSError:
            raise self._death() from None
        answers = []
        while not answers or (many and answers[-1]["is"] != "done"):
            answers.append(self._answer(deadline))
        return answers

    def _answer(self, deadline):
        out = self._process.stdout.fileno()
        while True:
            try:
                message = frames.unpack(self._buffer)
            except (frames.FrameError, ValueError) as error:
                self.kill()
                raise NodeDied(f"the worker said nonsense: {error}") from None
            if message is not None:
                return message
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                self.kill()
                raise NodeDied("the worker did not answer in time")
            data = os.read(out, 1 << 16)
            if not data:
                raise self._death()
            self._buffer += data

    def _death(self):
        status = self._process.wait(timeout=10)
        self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, self._words.tell() - 300))
        words = self._words.read().decode(errors="replace").strip()
        how = f"signal {-status}" if status < 0 else f"status {status}"
        self._close()
        return NodeDied(f"the worker ended with {how}" + (f": {words}" if words else ""))

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self):
        for file in (self._process.stdin, self._process.stdout, self._words):
            file.close()
