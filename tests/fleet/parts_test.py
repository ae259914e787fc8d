#!/usr/bin/env python3
"""The parts of heddle-fleet that need no Ray: frames, signatures, and a node asked over pipes.

    parts_test.py build/bin/heddle
"""
import os
import signal
import socket
import subprocess
import sys
import unittest

from heddle_fleet import frames, nodes, reach, signing
from heddle_fleet.compile_queue import CompileQueue
from heddle_fleet.node_process import NodeDied, NodeProcess, worker_command

HEDDLE = sys.argv[1] if len(sys.argv) > 1 else "heddle"


class Frames(unittest.TestCase):
    def test_messages_come_out_as_they_went_in(self):
        first, second = {"do": "task", "steps": [1, 2.5, None]}, {"name": "é"}
        buffer = bytearray(frames.pack(first) + frames.pack(second)[:-1])
        self.assertEqual(frames.unpack(buffer), first)
        self.assertIsNone(frames.unpack(buffer))
        buffer += frames.pack(second)[-1:]
        self.assertEqual(frames.unpack(buffer), second)
        self.assertEqual(buffer, b"")

    def test_what_is_no_frame_is_refused(self):
        for header in (b"HDW9\0\0\0\0", b"GET / HT", b"HDW2\xff\xff\xff\xff"):
            with self.assertRaises(frames.FrameError):
                frames.unpack(bytearray(header))


class Signing(unittest.TestCase):
    task, steps, code = {"task": 1, "name": "t"}, {"steps": [1]}, {"object": "7f45"}

    def test_code_of_the_run_is_taken(self):
        artefact = signing.signed(b"key", self.task, self.steps, self.code)
        self.assertEqual(signing.verified(b"key", self.task, self.steps, artefact), self.code)

    def test_other_code_is_not(self):
        artefact = signing.signed(b"key", self.task, self.steps, self.code)
        changed = artefact[:-3] + b"6" + artefact[-2:]
        for key, task, steps, what in (
            (b"another", self.task, self.steps, artefact),
            (b"key", {"task": 2}, self.steps, artefact),
            (b"key", self.task, {"steps": [2]}, artefact),
            (b"key", self.task, self.steps, changed),
            (b"key", self.task, self.steps, b""),
            (b"key", self.task, self.steps, artefact[32:]),
        ):
            with self.assertRaises(signing.ForeignCode):
                signing.verified(key, task, steps, what)


class Compiling(unittest.TestCase):
    class Actor:
        def __init__(self):
            self.work, self.jobs = 0, set()

    def test_requests_that_arrive_together_go_to_all_nodes(self):
        queue, actors = CompileQueue(2), [self.Actor() for _ in range(4)]
        for job in range(11):  # as a search announces them: none is sent before the last one is here
            queue.add({"job": job, "urgent": False})
            queue.hand_out(actors)
        self.assertEqual([actor.work for actor in actors], [2, 2, 2, 2])
        self.assertEqual(actors[1].jobs, {1, 5})
        actors[2].work = 0
        self.assertEqual([request["job"] for _, request in queue.hand_out(actors)], [8, 9])

    def test_those_of_a_batch_come_first(self):
        queue, actor = CompileQueue(2), self.Actor()
        for job, urgent in ((1, False), (2, True), (3, False), (4, True)):
            queue.add({"job": job, "urgent": urgent})
        self.assertEqual(queue.drop({3}), {1, 2, 3, 4})
        self.assertEqual([request["job"] for _, request in queue.hand_out([actor])], [2, 4])
        actor.work = 0
        self.assertEqual([request["job"] for _, request in queue.hand_out([actor])], [1])


class Nodes(unittest.TestCase):
    def node(self, alive=True, **resources):
        renamed = {name.replace("_", ":"): n for name, n in resources.items()}
        return {"Alive": alive, "Resources": renamed, "NodeManagerHostname": "h", "NodeID": "0123456789"}

    def test_who_compiles(self):
        for expected, node, resource in (
            (8, self.node(CPU=8.0), "cpu:znver3"),
            (0, self.node(alive=False, CPU=8.0), "cpu:znver3"),
            (0, self.node(CPU=8.0, cpu_znver4=1.0), "cpu:znver3"),  # somebody times that CPU
            (8, self.node(CPU=8.0, cpu_znver4=1.0), "gpu:h200"),
            (4, self.node(CPU=8.0, gpu_h200=2.0), "gpu:h200"),
            (1, self.node(CPU=8.0, gpu_h200=8.0), "gpu:h200"),
            (64, self.node(CPU=512.0), "gpu:h200"),
            (0, self.node(), "gpu:h200"),
        ):
            self.assertEqual(nodes.compilers_of(node, resource), expected, (node, resource))

    def test_who_measures(self):
        node = self.node(CPU=8.0, gpu_h200=2.0)
        self.assertEqual(nodes.devices_of(node, "gpu:h200"), 2)
        self.assertEqual(nodes.devices_of(node, "cpu:znver3"), 0)
        self.assertEqual(nodes.node_name(node), "h/012345")


HELLO = {
    "do": "hello",
    "protocol": 2,
    "kind": "cpu",
    "memory_limit": 0,
    "node": "",
    "measure": {
        "min_repeats": 2,
        "max_repeats": 3,
        "min_seconds": 0.0,
        "max_seconds": 0.05,
        "relative_ci": 0.02,
        "cutoff": 0.0,
        "timeout_seconds": 10.0,
        "memory_limit_bytes": 0,
        "check_output": True,
    },
}


def version():
    said = subprocess.run([HEDDLE, "--version"], capture_output=True, text=True, check=True)
    return said.stdout.split()[-1].partition("+")[0]  # without the commit


class Node(unittest.TestCase):
    def start(self, hello):
        return NodeProcess([HEDDLE, "worker"], hello, [])

    def test_it_says_what_it_is(self):
        node = self.start({**HELLO, "version": version()})
        self.assertTrue(node.about["machine"])
        node.kill()

    def test_one_of_another_version_says_so(self):
        with self.assertRaisesRegex(NodeDied, "its worker of"):
            self.start({**HELLO, "version": "0.0.0"})

    def test_a_death_is_told_with_its_last_words(self):
        node = self.start({**HELLO, "version": version()})
        with self.assertRaisesRegex(NodeDied, "status 2: heddle-worker: .*never sent task 3"):
            node.ask({"do": "compile", "task": 3, "steps": {}}, 20)
        node = self.start({**HELLO, "version": version()})
        os.kill(node.pid, signal.SIGKILL)
        with self.assertRaisesRegex(NodeDied, "signal 9"):
            node.ask({"do": "compile", "task": 3, "steps": {}}, 20)

    def test_one_that_does_not_answer_is_killed(self):
        node = self.start({**HELLO, "version": version()})
        os.kill(node.pid, signal.SIGSTOP)
        with self.assertRaisesRegex(NodeDied, "did not answer in time"):
            node.ask({"do": "task"}, 0.2)

    def test_the_command_is_found(self):
        self.assertEqual(worker_command([HEDDLE, "worker"])[0], HEDDLE)
        os.environ["HEDDLE_FLEET_WORKER"] = "/opt/heddle worker"
        try:
            self.assertEqual(worker_command([HEDDLE]), ["/opt/heddle", "worker"])
        finally:
            del os.environ["HEDDLE_FLEET_WORKER"]


class Reach(unittest.TestCase):
    def test_nobody_there_is_said_at_once(self):
        with socket.socket() as held:  # a port that nobody listens on
            held.bind(("127.0.0.1", 0))
            address = f"ray://127.0.0.1:{held.getsockname()[1]}"
            with self.assertRaisesRegex(ConnectionError, "no Ray cluster answers at ray://127"):
                reach.check_reachable(address)

    def attempts(self, failures, words):
        calls = []

        def connect():
            calls.append("connect")
            if calls.count("connect") <= failures:
                raise ConnectionAbortedError(words)

        try:
            reach.connect_patiently(connect, lambda: calls.append("undo"), pause_seconds=0)
        except ConnectionError:
            calls.append("error")
        return calls

    def test_a_server_for_clients_that_failed_is_asked_again(self):
        zombie = "Initialization failure from server:\npsutil.ZombieProcess: PID still exists but it's a zombie"
        self.assertEqual(self.attempts(0, zombie), ["connect"])
        self.assertEqual(self.attempts(2, zombie), ["connect", "undo"] * 2 + ["connect"])
        self.assertEqual(self.attempts(9, zombie), ["connect", "undo"] * 4 + ["connect", "error"])
        self.assertEqual(self.attempts(1, "the versions differ"), ["connect", "error"])

    def test_what_has_no_address_is_not_tried(self):
        reach.check_reachable("auto")
        reach.check_reachable("local")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
