"""What the tests of fleets share: `heddle tune` as a process, what its log must hold, and the running
of tests."""
import collections
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

DEVICE = "cpu:here"
TRIALS = 36
SUBJECT = "matmul:64x48x56"
SKIPPED = 77


class Failure(Exception):
    pass


def expect(holds, words):
    if not holds:
        raise Failure(words)


def skip(words):
    print(f"skipped: {words}")
    sys.exit(SKIPPED)


class Tuning:
    """`heddle tune` on the cluster, with a log of its own. `within`: words before the command."""

    def __init__(self, heddle, address, folder, name, trials=TRIALS, subject=SUBJECT, seed=0, within=(), budget=150):
        self.log, self.json = folder / f"{name}.jsonl", folder / f"{name}.json"
        self.trials = trials
        self.command = [*within, heddle, "tune", subject, "--fleet", address, "--fleet-device", DEVICE]
        self.command += ["--threads", "1", "--quiet", "--log", str(self.log), "--json", str(self.json)]
        self.command += ["--budget", f"{budget}s", "--seed", str(seed), "--no-warm-start"]
        # Where other work keeps this machine busy, Ray takes a minute to start again.
        self.command += ["--fleet-wait", "180"]
        self.process = None

    def start(self, trials=None):
        """`trials`: beyond what its log has already; all of them where it is new."""
        command = [*self.command, "--trials", str(trials or self.trials)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def go_on(self):
        """On what is missing, as another driver would that has the log; one more where nothing is."""
        done = self.count()
        self.trials = max(self.trials, done + 1)
        self.start(self.trials - done)

    def wait(self):
        said, _ = self.process.communicate(timeout=240)
        expect(self.process.returncode == 0, f"status {self.process.returncode}: {said}")
        return json.loads(self.json.read_text())

    def interrupt(self):
        """As Ctrl-C does: the best so far is kept."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        return json.loads(self.json.read_text())

    def records(self):
        """Races left out, and a line that is being written."""
        lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        records = [json.loads(line) for line in lines if line]
        return [r for r in records if r["verdict"] == "screened"]

    def count(self):
        return len(self.records())

    def count_on(self, device):
        """Those that were measured on devices of which the name has this."""
        return sum(device in record["machine"] for record in self.records())

    def wait_until(self, holds, words, seconds=120):
        end = time.monotonic() + seconds
        while not holds():
            if self.process.poll() is not None:
                raise Failure(f"it ended before {words}: {self.process.stdout.read()}")
            expect(time.monotonic() < end, f"{words}: not after {seconds} s")
            time.sleep(0.05)

    def wait_for(self, trials):
        self.wait_until(lambda: self.count() >= trials, f"{trials} trials were recorded")

    def expect_each_once(self, trials=None):
        trials = trials or self.trials
        counts = collections.Counter(json.dumps(record["steps"]) for record in self.records())
        twice = [steps for steps, n in counts.items() if n > 1]
        expect(not twice, f"{len(twice)} schedules were recorded twice")
        expect(len(counts) == trials, f"{len(counts)} trials were recorded, {trials} were asked for")


def run_tests(tests, fleet, heddle, only="", within=(), address=None):
    """Each test is called with the fleet and with what makes a Tuning, and returns what it saw.
    Returns an exit status."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for test in tests:
            if only not in test.__name__:
                continue

            began, ok = time.monotonic(), False
            # Ray's own time limits pass where this machine is busy: a test that fails is tried once more.
            for attempt in (1, 2):

                def tune(name, address=address or fleet.address, within=within, attempt=attempt, **how):
                    folder_of_attempt = pathlib.Path(folder) / str(attempt)
                    folder_of_attempt.mkdir(exist_ok=True)
                    return Tuning(heddle, address, folder_of_attempt, name, within=within, **how)

                try:
                    words, ok = test(fleet, tune), True
                except (Failure, subprocess.TimeoutExpired) as failure:
                    words = failure
                if ok:
                    break
                print(f"again   {test.__name__}: {words}", flush=True)
            failed += not ok
            seconds = time.monotonic() - began
            print(f"{'ok     ' if ok else 'FAILED '} {test.__name__}: {words} ({seconds:.0f} s)", flush=True)
    return 1 if failed else 0
