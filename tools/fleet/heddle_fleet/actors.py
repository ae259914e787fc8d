"""The actor on a node. It is the only one that uses its device, for all tuners that share a fleet:
each has a session, with a worker process of its own, and their requests take turns."""
import os
import threading
import time

from . import signing
from .node_process import NodeDied, NodeProcess, worker_command

# A tuner that is gone without a word: its session ends, and so does an actor without any.
IDLE_SESSION_SECONDS = 600
IDLE_ACTOR_SECONDS = 30
# Beyond what a request may take: its last candidate, and messages.
SLACK_SECONDS = 60
# Of what a node says at the end of a round.
TOLD = ("failed", "problem", "took", "static_choice", "old_base")


class UnknownSession(Exception):
    """The session has ended, or this is another actor."""


class _Session:
    def __init__(self, command, hello, key, index):
        self.command, self.hello, self.key = command, hello, key
        self.environment = dict(os.environ)
        if hello["kind"] == "cuda" and hello["node"]:  # it measures
            gpus = os.environ.get("HEDDLE_FLEET_GPUS", "").split(",")
            self.environment["CUDA_VISIBLE_DEVICES"] = gpus[index] if gpus[0] else str(index)
        self.tasks = {}
        self.process = None
        self.used = time.monotonic()

    def start(self):
        if self.hello["node"]:  # it measures; Ray makes all that it starts nice
            try:
                os.setpriority(os.PRIO_PROCESS, 0, 0)
            except PermissionError:
                pass  # RAY_worker_niceness=0 for `ray start` does the same
        tasks = self.tasks.values()
        self.process = NodeProcess(self.command, self.hello, tasks, self.environment)

    def ask(self, request, seconds):
        if self.process is None:
            self.start()
        try:
            return self.process.ask(request, seconds + SLACK_SECONDS)
        except NodeDied:
            self.process = None  # the next request starts another
            raise

    def end(self):
        if self.process is not None:
            self.process.kill()


class NodeActor:
    """Ray starts one for each device, and one for each core that compiles."""

    def __init__(self):
        self._sessions = {}
        self._empty_since = time.monotonic()
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def open(self, session, command, hello, key, index):
        """Starts the worker and returns its description of this machine. `index` counts the devices of a node."""
        made = _Session(worker_command(command), hello, key, index)
        made.start()
        with self._lock:
            old = self._sessions.get(session)
            self._sessions[session] = made
        if old is not None:
            old.end()
        return {**made.process.about, "pid": os.getpid(), "worker": made.process.pid}

    def task(self, session, message):
        """Sends a task to the worker. Returns the reason of a refusal, or None."""
        here = self._session(session)
        here.tasks[message["task"]] = message
        return here.ask(message, SLACK_SECONDS)[0].get("message")

    def compile(self, session, request):
        """Returns the answer for the tuner and the code, which stays in Ray's object store."""
        here = self._session(session)
        task = here.tasks[request["task"]]
        answer = here.ask(request, here.hello["measure"]["timeout_seconds"] * 2)[0]
        code = answer.pop("code", None)
        if code is None:
            return answer, b""
        return answer, signing.signed(here.key, task, request["steps"], code)

    def measure(self, session, request, base, *artefacts):
        """{results, failed?, problem?}. `base`, `artefacts`: code of the static choice, and of the
        candidates; None where there is none."""
        here = self._session(session)
        task = here.tasks[request["task"]]
        if base is not None:
            request["base_code"] = signing.verified(here.key, task, task["default"], base)
        for candidate, artefact in zip(request["candidates"], artefacts, strict=True):
            if artefact is not None:
                candidate["code"] = signing.verified(here.key, task, candidate["steps"], artefact)
        *results, done = here.ask(request, request["seconds"])
        return {"results": results, **{k: v for k, v in done.items() if k in TOLD}}

    def close(self, session):
        with self._lock:
            ended = self._sessions.pop(session, None)
            self._empty_since = time.monotonic()
        if ended is not None:
            ended.end()

    def _session(self, session):
        with self._lock:
            here = self._sessions.get(session)
        if here is None:
            raise UnknownSession(session)
        here.used = time.monotonic()
        return here

    def _watch(self):
        while True:
            time.sleep(5)
            now = time.monotonic()
            with self._lock:
                late = [s for s, x in self._sessions.items() if now - x.used > IDLE_SESSION_SECONDS]
                empty = not self._sessions and now - self._empty_since > IDLE_ACTOR_SECONDS
            for session in late:
                self.close(session)
            if empty:
                os._exit(0)
