"""The bridge: relays the tuner's requests (src/measure/messages/fleet.h) to actors on the nodes of a
cluster, and reports nodes that join or leave. The tuner decides what follows from that."""
import asyncio
import os
import secrets
import sys

import ray
from ray.exceptions import RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import heddle_fleet

from . import frames, nodes
from .actors import NodeActor, UnknownSession
from .compile_queue import CompileQueue

LOOK_SECONDS = 1
EACH_COMPILER = 2  # requests on their way to one that compiles, so that it never waits
LONGEST_WAIT = 120  # for an actor to start
# For the first one that compiles, so that no device begins by compiling itself.
COMPILER_WAIT = 10
LOOK_WAIT = 15  # for the cluster to say who is there


class Actor:
    """An actor on a node, as this bridge sees it."""

    def __init__(self, name, node_id):
        self.name, self.node_id = name, node_id
        self.handle = None
        self.told = set()
        self.work = 0  # requests on their way


class Bridge:
    def __init__(self, channel, hello):
        self._channel, self._settings = channel, hello["fleet"]
        self._session = secrets.token_hex(8)
        self._key = secrets.token_bytes(32)
        self._tasks = {}
        self._devices, self._compilers = {}, {}
        self._queue = CompileQueue(EACH_COMPILER)
        self._code = {}  # job: its code in the object store
        self._dropped = set()
        self._background = set()
        self._compiler_is_there = asyncio.Event()
        # Nodes need not have this package.
        ray.cloudpickle.register_pickle_by_value(heddle_fleet)
        self._actor = ray.remote(NodeActor)

    async def serve(self):
        self._reader, self._writer = await asyncio.open_connection(sock=self._channel)
        self._start(self._look())
        try:
            while (message := await self._receive()) is not None:
                if message["do"] == "end":
                    break
                self._take(message)
        finally:
            await self._close()

    # ---- the tuner ---------------------------------------------------------------------------

    async def _receive(self):
        try:
            header = await self._reader.readexactly(frames.HEADER)
            body = await self._reader.readexactly(frames.length_in(header))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return frames.unpack(bytearray(header + body))

    def _say(self, message):
        self._writer.write(frames.pack(message))

    def _start(self, work):
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task):
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # A fault of this program: the tuner starts another, and shows these words if that ends so.
            print(f"heddle-fleet: {task.exception()!r}", file=sys.stderr, flush=True)
            os._exit(1)

    def _take(self, message):
        what = message["do"]
        if what == "task":
            self._tasks[message["task"]] = ray.put(message)
            for actor in self._compilers.values():
                self._warm(actor)
        elif what == "compile":
            self._queue.add(message)
            self._feed_compilers()
        elif what == "measure":
            self._start(self._measure(message))
        elif what == "drop":
            self._drop(set(message["jobs"]))

    def _drop(self, jobs):
        for job in jobs:
            self._code.pop(job, None)
        waiting = self._queue.drop(jobs)
        compiling = {job for a in self._compilers.values() for job in getattr(a, "jobs", ())}
        self._dropped |= (jobs - waiting) & compiling

    async def _close(self):
        ends = [
            actor.handle.close.remote(self._session)
            for actor in (*self._devices.values(), *self._compilers.values())
            if actor.handle is not None
        ]
        try:
            await asyncio.wait_for(asyncio.gather(*ends, return_exceptions=True), timeout=2)
        except asyncio.TimeoutError:
            pass  # at work: the session ends by itself
        os._exit(0)

    # ---- who is there ------------------------------------------------------------------------

    async def _look(self):
        loop = asyncio.get_running_loop()
        while True:
            try:
                known = await asyncio.wait_for(loop.run_in_executor(None, ray.nodes), timeout=LOOK_WAIT)
            except Exception as error:  # the cluster is gone: the tuner decides
                raise RuntimeError(f"the cluster does not answer: {_words(error)}") from error
            for node in known:
                for i in range(nodes.compilers_of(node, self._settings["resource"])):
                    self._meet(self._compilers, node, i, "compile ", {"num_cpus": 1})
            if not self._compilers:
                self._compiler_is_there.set()
            for node in known:
                for i in range(nodes.devices_of(node, self._settings["resource"])):
                    resources = {"num_cpus": 0, "resources": {self._settings["resource"]: 1}}
                    self._meet(self._devices, node, i, "", resources)
            await asyncio.sleep(LOOK_SECONDS)

    def _meet(self, known, node, index, prefix, resources):
        name = f"{prefix}{nodes.node_name(node)}#{index}"
        if name not in known:
            known[name] = Actor(name, node["NodeID"])
            self._start(self._open(known, known[name], index, resources))

    async def _open(self, known, actor, index, resources):
        hello = self._settings["device" if known is self._devices else "compiler"]
        options = {
            "name": f"heddle {actor.name}",
            "get_if_exists": True,
            "lifetime": "detached",
            "max_restarts": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(actor.node_id, soft=False),
            **resources,
        }
        try:
            handle = self._actor.options(**options).remote()
            worker = self._settings["worker"]
            opened = handle.open.remote(self._session, worker, hello, self._key, index)
            about = await asyncio.wait_for(_result(opened), timeout=LONGEST_WAIT)
        except RayTaskError as error:  # its worker does not start: no second try
            if known is self._devices:
                self._say({"is": "device", "device": actor.name, "problem": str(error.cause)})
            return
        except (RayActorError, asyncio.TimeoutError, ValueError):
            known.pop(actor.name, None)  # and is looked for again
            return
        actor.handle = handle
        if known is self._devices:
            await self._wait_for_a_compiler()
            told = {k: about[k] for k in ("machine", "problem") if k in about}
            self._say({"is": "device", "device": actor.name, **told})
        else:
            actor.jobs = set()
            self._compiler_is_there.set()
            self._count_compilers()
            self._warm(actor)
            self._feed_compilers()

    async def _wait_for_a_compiler(self):
        try:
            await asyncio.wait_for(self._compiler_is_there.wait(), timeout=COMPILER_WAIT)
        except asyncio.TimeoutError:
            pass

    def _count_compilers(self):
        count = sum(a.handle is not None for a in self._compilers.values())
        self._say({"is": "compilers", "count": count})

    def _lose(self, known, actor, why):
        if known.get(actor.name) is not actor:
            return
        del known[actor.name]
        if known is self._devices:
            self._say({"is": "gone", "device": actor.name, "why": why})
        else:
            self._count_compilers()

    def _tell(self, actor, task):
        """Sends a task before all requests about it. Calls of one actor keep their order."""
        if task in actor.told:
            return
        actor.told.add(task)
        self._start(self._hear_of_task(actor, actor.handle.task.remote(self._session, self._tasks[task])))

    def _warm(self, actor):
        """Nodes that compile start their compiler at the first task that they are told of."""
        if actor.handle is not None and not actor.told and self._tasks:
            self._tell(actor, next(iter(self._tasks)))

    async def _hear_of_task(self, actor, told):
        try:
            why = await _result(told)
        except (RayActorError, RayTaskError):
            return  # what is asked next fails as well
        if why is not None and actor.name in self._devices:
            self._say({"is": "device", "device": actor.name, "problem": f"it does not take a task: {why}"})

    # ---- compiling ---------------------------------------------------------------------------

    def _feed_compilers(self):
        free = [a for a in self._compilers.values() if a.handle is not None]
        for actor, request in self._queue.hand_out(free):
            self._start(self._compile(actor, request))

    async def _compile(self, actor, message):
        job = message["job"]
        request = {key: message[key] for key in ("do", "task", "steps", "no_spills")}
        self._tell(actor, message["task"])
        call = actor.handle.compile.options(num_returns=2)
        answer, code = call.remote(self._session, request)
        try:
            said = await _result(answer)
            if job not in self._dropped and said["is"] == "compiled":
                self._code[job] = code
            if said["is"] == "unable":
                said = {"lost": said["message"]}
            said = {k: said[k] for k in ("seconds", "error", "message", "lost") if k in said}
        except (RayActorError, RayTaskError) as error:
            said = {"lost": _words(error)}
            if isinstance(error, RayActorError) or _is_unknown_session(error):
                self._lose(self._compilers, actor, said["lost"])
        self._say({"is": "job", "job": job, **said})
        self._dropped.discard(job)
        actor.jobs.discard(job)
        actor.work -= 1
        self._feed_compilers()

    # ---- measuring ---------------------------------------------------------------------------

    async def _measure(self, message):
        where = {"is": "round", "round": message["round"], "device": message["device"]}
        actor = self._devices.get(message["device"])
        if actor is None or actor.handle is None:
            self._say({**where, "lost": ""})
            return
        jobs = [c.pop("job", None) for c in message["candidates"]]
        base = message.pop("base_job", None)
        request = {k: v for k, v in message.items() if k not in ("round", "device")}
        self._tell(actor, message["task"])
        codes = [self._code.get(job) for job in (base, *jobs)]
        try:
            answer = await _result(actor.handle.measure.remote(self._session, request, *codes))
        except RayActorError as error:  # with all that it was given
            self._lose(self._devices, actor, _words(error))
            return
        except RayTaskError as error:
            unknown = _is_unknown_session(error)
            self._say({**where, "lost": "" if unknown else _words(error)})
            if unknown:
                self._lose(self._devices, actor, "its session has ended")
            return
        except ray.exceptions.RayError as error:  # code went with the node that made it
            for job in filter(None, (base, *jobs)):
                if self._code.pop(job, None) is not None:
                    self._say({"is": "job", "job": job, "lost": _words(error)})
            self._say({**where, "lost": ""})
            return
        self._say({**where, **answer})


async def _result(reference):
    return await reference


def _is_unknown_session(error):
    # By name: a class that is pickled by value may come back as another.
    return type(getattr(error, "cause", None)).__name__ == UnknownSession.__name__


def _words(error):
    cause = getattr(error, "cause", None)
    text = str(cause if cause is not None else error).strip()
    return " ".join(text.split())[:300] or type(error).__name__
