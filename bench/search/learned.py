#!/usr/bin/env python3
"""What `heddle learn` gains on a machine for which nothing ships, beside ten seconds of tuning a subject.

    bench/search/learned.py --bin build/bin --out results --learn-cores 0,1 --lanes 2,3 4,5 6,7 8,9 --budget 20m
    bench/search/learned.py --bin build/bin --out results --learn-cores 0,1 2,3 4,5 6,7 --lanes 8,9 10,11 --budget 5m   # 4 x 5 minutes

Forty subjects are drawn by a rule of this script, with types f32 and bf16: products, convolutions, reductions, elementwise
stages and stages that others read. Nobody learns from them. On some cores `heddle learn` runs, several learners with seeds of their own
that share a folder where --learn-cores names several sets of cores, while each subject is tuned on
others. When the time is over, one run concludes from all measurements. Then the static choice before and after learning and what tuning found are timed in turns, in one process a subject
(`heddle bench`: rules, static and tuned). Trees, constants and records that ship are off. Until it ends, idle lanes may measure more (--more), into
folders of their own. All files are in --out at any time; the script goes on from them where it is started again.
"""
import argparse
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import threading
import time


def extent(rng, least, most):
    value = int(math.exp(rng.uniform(math.log(least), math.log(most))))
    return max(least, value // 8 * 8) if value >= 32 and rng.random() < 0.6 else value


def product(rng):
    kind = rng.choice(["matmul", "matmul", "matmul", "dense", "batch_matmul"])
    while True:
        m, n, k = extent(rng, 1, 2048), extent(rng, 16, 2048), extent(rng, 16, 4096)
        if 1e6 < m * n * k < 4e8:
            break
    return f"{kind}:{rng.choice([4, 12])}x{extent(rng, 16, 256)}x{extent(rng, 16, 256)}x64" if kind == "batch_matmul" \
        else f"{kind}:{m}x{n}x{k}"


def convolution(rng):
    c, k = rng.choice([3, 16, 24, 32, 48, 64, 96, 128, 192, 256]), rng.choice([16, 32, 48, 64, 96, 128, 256])
    h, r = rng.choice([7, 14, 17, 28, 35, 56]), rng.choice([1, 3, 3, 5])
    stride = rng.choice([1, 1, 1, 2])
    layout = rng.choice(["nhwc", "nchw"])
    if rng.random() < 0.25:
        return f"depthwise_conv2d:c={k},h={h},r=3,stride={stride},pad=1,layout={layout}"
    return f"conv2d:c={c},h={h},k={k},r={r},stride={stride},pad={r // 2},layout={layout}"


def rows(rng, kinds, most=4e6):
    while True:
        m, n = extent(rng, 1, 20000), extent(rng, 8, 20000)
        if 3e4 < m * n < most:
            return f"{rng.choice(kinds)}:{m}x{n}"


def drawn(seed):
    """(subject, type), each once."""
    rng = random.Random(seed)
    kinds = [(12, product), (10, convolution),
             (8, lambda r: rows(r, ["row_sum", "column_sum", "argmax"])),
             (6, lambda r: rows(r, ["softmax", "layer_norm", "rms_norm", "log_softmax"])),
             (4, lambda r: rows(r, ["bias_gelu", "add_relu", "transpose", "concat"]))]
    return [(draw(rng), "bf16" if i % 4 == 3 else "f32") for count, draw in kinds for i in range(count)]


class Experiment:
    def __init__(self, args):
        self.args, self.out = args, pathlib.Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.env = dict(os.environ, HEDDLE_TOPHUB="off", HEDDLE_LOG_FILE="", HEDDLE_CACHE="off", CI="true")
        self.subjects = drawn(args.seed)[:args.subjects]
        self.threads = len(args.learn_cores[0].split(","))
        self.lock = threading.Lock()
        (self.out / "subjects.json").write_text(json.dumps(self.subjects))

    def program(self, name):
        return str(pathlib.Path(self.args.bin) / name)

    def say(self, text):
        with self.lock, open(self.out / "progress.txt", "a") as file:
            print(time.strftime("%H:%M:%S"), text, file=file, flush=True)

    def run(self, cores, command, log, learned="off"):
        with open(self.out / log, "a") as file:
            return subprocess.Popen(["taskset", "-c", cores] + command, env=dict(self.env, HEDDLE_LEARNED=learned),
                                    stdout=file, stderr=subprocess.STDOUT)

    def learn(self, cores, folder, budget, seed=1):
        learned = str(self.out / folder)
        return self.run(cores, [self.program("heddle"), "learn", "--budget", budget, "--threads",
                                str(len(cores.split(","))), "--cores", cores, "--seed", str(seed), "-q"],
                        f"{folder}.{seed}.txt", learned)

    def log_of(self, i):
        return self.out / f"tuned.{i}.jsonl"

    def tune(self, lane, cores):
        for i in range(lane, len(self.subjects), len(self.args.lanes)):
            subject, dtype = self.subjects[i]
            done = self.out / f"tuned.{i}.txt"
            if done.exists():
                continue
            self.run(cores, [self.program("heddle"), "tune", subject, "--dtype", dtype, "--threads", str(self.threads),
                             "--budget", self.args.tune, "--log", str(self.log_of(i)), "-q"],
                     f"tuning.{lane}.txt").wait()
            done.write_text(subject)
            self.say(f"tuned {subject} {dtype}")

    def time(self, lane, cores, rounds):
        with open(self.out / f"times.{lane}.jsonl", "a") as file, open(self.out / f"timing.{lane}.txt", "a") as errors:
            for _ in range(rounds):
                for i in range(lane, len(self.subjects), len(self.args.lanes)):
                    subject, dtype = self.subjects[i]
                    env = dict(self.env, HEDDLE_LEARNED=str(self.out / "learned"))
                    if self.log_of(i).exists():
                        env["HEDDLE_LOG_FILE"] = str(self.log_of(i))
                    done = subprocess.run(["taskset", "-c", cores, self.program("heddle"), "bench", subject, "--dtype",
                                           dtype, "--threads", str(self.threads), "--peers", "none", "--no-naive",
                                           "--time", str(self.args.time), "--json", "-"], stdout=subprocess.PIPE,
                                          stderr=errors, text=True, check=False, timeout=120, env=env)
                    if done.returncode == 0:
                        ms = json.loads(done.stdout)["results"][0]["times_ms"]
                        print(json.dumps({"subject": subject, "dtype": dtype, "ms": ms}), file=file, flush=True)

    def in_lanes(self, work, *rest):
        lanes = [threading.Thread(target=work, args=(i, cores, *rest)) for i, cores in enumerate(self.args.lanes)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()

    def conclude(self):
        """One run on all cores concludes from what all learners measured, on the target of their logs."""
        first = next((self.out / "learned").glob("*.measured"), None)
        if first is None:
            return self.say("nothing was measured")
        header = json.loads(first.open().readline())
        target = " ".join(x for x in header["target"].split() if not x.startswith("-threads"))
        cores = ",".join(self.args.learn_cores + self.args.lanes)
        with open(self.out / "learned.txt", "a") as file:
            subprocess.run(["taskset", "-c", cores, self.program("heddle"), "learn", "--conclude", "--target", target, "--threads", str(self.threads),
                            "--budget", self.args.conclude], env=dict(self.env, HEDDLE_LEARNED=str(self.out / "learned")),
                           stdout=file, stderr=subprocess.STDOUT, check=False)
        return self.say("concluded")

    def whole(self):
        self.say("begins")
        end = time.monotonic() + seconds(self.args.budget)
        learners = [self.learn(cores, "learned", self.args.budget, seed) for seed, cores in enumerate(self.args.learn_cores, self.args.first_seed)]
        self.in_lanes(self.tune)
        self.say("tuned all")
        left = f"{max(1, int(end - time.monotonic()))}s"
        learners += [self.learn(cores, f"more{len(cores.split(','))}", left, seed)
                     for seed, cores in enumerate(self.args.more, self.args.first_seed + len(learners))]
        time.sleep(max(0, end - time.monotonic()))
        for process in learners:  # what they measured is in their logs
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.say("learned")
        self.conclude()
        if self.args.time_on_all:
            self.args.lanes = self.args.lanes + self.args.learn_cores
        self.in_lanes(self.time, self.args.rounds)
        self.say("timed all")
        summary = summarise(self.out)
        (self.out / "summary.txt").write_text(summary)
        print(summary)


def seconds(text):
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def summarise(out):
    """Geometric means over subjects of the medians of their rounds."""
    gains, lines = {}, []
    for file in sorted(pathlib.Path(out).glob("times.*.jsonl")):
        for line in file.read_text().splitlines():
            result = json.loads(line)
            ms = result["ms"]
            before = ms.get("rules", ms["static"])  # the same schedule where there is no such line
            gains.setdefault((result["subject"], result["dtype"]), []).append(
                (before / ms["static"], before / min(before, ms.get("tuned", before)), before * 1e3))
    middle = lambda values: sorted(values)[len(values) // 2]
    for (subject, dtype), rounds in sorted(gains.items()):
        after, tuned, us = (middle([r[i] for r in rounds]) for i in range(3))
        lines.append((math.log(after), math.log(tuned), f"{after:6.3f} {tuned:6.3f} {us:10.1f}  {subject} {dtype}"))
    if not lines:
        return "nothing was timed\n"
    learned, tuned = (sum(line[i] for line in lines) / len(lines) for i in range(2))
    share = learned / tuned if tuned > 0 else float("nan")
    return "learned  tuned  us before\n" + "\n".join(line[2] for line in lines) + \
        f"\n{len(lines)} subjects: learning gains {math.exp(learned):.4f}, tuning {math.exp(tuned):.4f}: {share:.2f} of it\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--out", required=True)
    parser.add_argument("--learn-cores", nargs="+", default=["0,1"], help="cores of each learner")
    parser.add_argument("--lanes", nargs="+", default=["2,3"], help="cores of each lane; as many as learn has")
    parser.add_argument("--more", nargs="*", default=[], help="cores of learners for other seeds, once all is tuned")
    parser.add_argument("--budget", default="20m", help="of each learner")
    parser.add_argument("--conclude", default="3m", help="time for the conclusion at most")
    parser.add_argument("--time-on-all", action="store_true", help="time on the cores of the learners too")
    parser.add_argument("--tune", default="10s")
    parser.add_argument("--rounds", type=int, default=1, help="of the last timing")
    parser.add_argument("--time", type=float, default=0.5, help="seconds of timing a schedule")
    parser.add_argument("--subjects", type=int, default=40)
    parser.add_argument("--seed", type=int, default=97, help="of the subjects")
    parser.add_argument("--first-seed", type=int, default=1, help="of what learners draw, one each")
    parser.add_argument("--summary", action="store_true", help="only of what is in --out")
    args = parser.parse_args()
    if args.summary:
        print(summarise(args.out), end="")
    else:
        Experiment(args).whole()


if __name__ == "__main__":
    main()
