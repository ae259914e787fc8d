#!/usr/bin/env python3
"""Times tokens of a decoder on a CPU by llama.cpp, ONNX Runtime and Heddle, in turns.

    cpu_side_by_side.py [--types f32,bf16,q8_0,q4_0] [--threads 1,2] [--prompt 16] [--tokens 24] [--rounds 5]
                        [--engines llama.cpp,onnxruntime,heddle,heddle-w8a8] [--files FOLDER] [--json results.json]
                        [sizes as of llama.py]

All have the same random weights: llama.cpp those of a GGUF file; ONNX Runtime, in a loop with past and present, those
of an ONNX file where it has kernels for the type; Heddle those of the file that --heddle-file names. Each engine is a
process that has loaded its model and waits for its turn, in which it reads the prompt and draws the tokens greedily.
A time is the median of a turn's tokens, and of the turns. Printed are tokens a second, the share of the bandwidth of
memory that the bytes of a step take (`heddle generate` measures both), the time of the others over Heddle's, and the
largest difference of the logits behind the prompt from llama.cpp's over the largest logit. Needs requirements.txt.
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import llama

BITS = {"q4_0": 4, "q8_0": 8}


class LlamaCpp:
    def __init__(self, o):
        import llama_cpp

        self.api = llama_cpp
        model, context = llama_cpp.llama_model_default_params(), llama_cpp.llama_context_default_params()
        model.n_gpu_layers = 0
        context.n_ctx = context.n_batch = context.n_ubatch = o.capacity
        context.n_threads = context.n_threads_batch = o.worker_threads
        self.silent = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.silent, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_load_model_from_file(o.file.encode(), model)
        self.context = llama_cpp.llama_new_context_with_model(self.model, context)
        self.vocabulary = o.vocabulary

    def reset(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def read(self, ids):
        tokens = (self.api.llama_token * len(ids))(*ids)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(tokens, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        return np.ctypeslib.as_array(self.api.llama_get_logits_ith(self.context, -1), (self.vocabulary,))


class OnnxRuntime:
    def __init__(self, o):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = o.worker_threads
        self.session = onnxruntime.InferenceSession(o.file, options, providers=["CPUExecutionProvider"])
        self.empty = {i.name: np.zeros((1, o.groups, 0, o.hidden // o.heads), np.float32)
                      for i in self.session.get_inputs() if i.name.startswith("past")}
        self.reset()

    def reset(self):
        self.past, self.length = self.empty, 0

    def read(self, ids):
        begin, self.length = self.length, self.length + len(ids)
        logits, *present = self.session.run(None, {
            "input_ids": np.array([ids]), "attention_mask": np.ones((1, self.length), np.int64),
            "position_ids": np.arange(begin, self.length)[None], **self.past})
        self.past = dict(zip(self.empty, present))
        return logits[0, -1]


class Heddle:
    rounds = False

    def __init__(self, o):
        import heddle

        dtype = o.worker_type if o.file.endswith(".onnx") and o.worker_type not in BITS else "f32"
        self.model = heddle.LanguageModel(o.file, capacity=o.capacity, dtype=dtype,
                                          target=f"llvm -mcpu=native -threads={o.worker_threads}",
                                          allow_approximate=self.rounds)

    def reset(self):
        self.model.reset()

    def read(self, ids):
        return self.model.read(ids)[0]


class HeddleQuantized(Heddle):
    """With inputs of products rounded to 8 bits, as llama.cpp has them."""
    rounds = True


ENGINES = {"llama.cpp": LlamaCpp, "onnxruntime": OnnxRuntime, "heddle": Heddle, "heddle-w8a8": HeddleQuantized}


def prompt_of(o):
    return [7 * i % o.vocabulary for i in range(1, o.prompt + 1)]


def turn(engine, o):
    engine.reset()
    clock = time.process_time if o.clock == "cpu" else time.perf_counter
    times, begin = [], clock()
    token = int(engine.read(prompt_of(o)).argmax())
    for _ in range(o.tokens):
        end = clock()
        times.append(end - begin)
        begin = end
        token = int(engine.read([token]).argmax())
    return {"prefill_s": times[0], "token_s": statistics.median(times[1:])}


def work(o):
    """Answers each line of stdin with a line of JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    engine = ENGINES[o.worker](o)
    np.save(o.logits, engine.read(prompt_of(o)))
    turn(engine, o)
    for _ in itertools.chain(["ready"], sys.stdin):
        print(json.dumps(turn(engine, o)), file=answers, flush=True)


class Worker:
    def __init__(self, name, file, kind, threads, folder, o):
        self.logits = str(folder / f"{name}.npy")
        sizes = [f"--{n}={getattr(o, n)}" for n in (*llama.SIZES, "prompt", "tokens", "capacity", "clock")]
        command = [sys.executable, __file__, *sizes, "--worker", name, "--worker-type", kind, "--worker-threads",
                   str(threads), "--file", str(file), "--logits", self.logits]
        environment = {**os.environ, "HEDDLE_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args[1:]} ended without an answer")
        return json.loads(line)

    def turn(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def files_of(o, kind, folder):
    """The GGUF and the ONNX file of a type, which are written where they are missing."""
    o.bits, o.block, o.type = BITS.get(kind, 0), 32, kind
    files = folder / f"{kind}.gguf", folder / f"{kind if o.bits else 'f32'}.onnx"
    for file in files:
        if not file.exists():
            llama.write(str(file), o)
    return files


def bytes_and_bandwidth(o, file, kind, threads):
    dtype = kind if kind not in BITS and file.suffix == ".onnx" else "f32"
    command = [o.heddle, "generate", str(file), "--dtype", dtype, "--threads", str(threads), "--capacity", str(o.capacity),
               "--prompt-ids", ",".join(map(str, prompt_of(o))), "--tokens", "3", "--greedy", "-q", "--json"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return result["bytes_per_step"], result["bandwidth_bytes_per_s"]


def case(o, kind, threads, folder):
    gguf_file, onnx_file = files_of(o, kind, folder)
    own = gguf_file if o.heddle_file == "gguf" else onnx_file
    skipped = {"onnxruntime": kind not in ("f32", *BITS), "heddle-w8a8": kind not in BITS}
    engines = [e for e in o.engines if not skipped.get(e, False)]
    workers = {e: Worker(e, {"llama.cpp": gguf_file, "heddle": own, "heddle-w8a8": own}.get(e, onnx_file), kind, threads, folder, o)
               for e in engines}
    turns = {e: [] for e in engines}
    for _ in range(o.rounds):
        for e in engines:
            turns[e].append(workers[e].turn())
    for w in workers.values():
        w.close()
    moved, bandwidth = bytes_and_bandwidth(o, own, kind, threads)
    medians = {e: {k: statistics.median(t[k] for t in turns[e]) for k in turns[e][0]} for e in engines}
    reference = np.load(workers[engines[0]].logits)
    for e in engines:
        m = medians[e]
        m["share"] = moved / m["token_s"] / bandwidth
        m["difference"] = float(np.abs(np.load(workers[e].logits) - reference).max() / np.abs(reference).max())
        over = m["token_s"] / medians["heddle"]["token_s"] if "heddle" in medians else float("nan")
        print(f"{kind:6} {threads:7} {e:12} {1 / m['token_s']:10.1f} {m['share']:8.0%} {over:8.2f} "
              f"{m['prefill_s'] * 1e3:11.1f} {m['difference']:11.1e}", flush=True)
    return {"type": kind, "threads": threads, "bytes": moved, "bandwidth": bandwidth, "engines": medians}


def run(o, folder):
    print(f"{'type':6} {'threads':>7} {'engine':12} {'tokens/s':>10} {'of GB/s':>8} {'/heddle':>8} {'prefill ms':>11} "
          f"{'difference':>11}")
    results = [case(o, kind, threads, folder) for kind in o.types for threads in o.threads]
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--types", type=words, default=words("f32,bf16,q8_0,q4_0"))
    parser.add_argument("--threads", type=lambda text: list(map(int, words(text))), default=[1, 2])
    parser.add_argument("--engines", type=words, default=list(ENGINES))
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: the processor's time, for one thread on a machine that others use")
    parser.add_argument("--heddle-file", choices=("onnx", "gguf"), default="onnx")
    parser.add_argument("--heddle", default="build/bin/heddle")
    for name, usual in (("prompt", 16), ("tokens", 24), ("rounds", 5), ("capacity", 512)):
        parser.add_argument("--" + name, type=int, default=usual)
    parser.add_argument("--files", type=pathlib.Path, help="where models are kept")
    parser.add_argument("--json")
    for name in ("worker", "worker-type", "file", "logits"):
        parser.add_argument("--" + name, help=argparse.SUPPRESS)
    parser.add_argument("--worker-threads", type=int, help=argparse.SUPPRESS)
    llama.add_sizes(parser)
    o = parser.parse_args()
    if o.worker:
        work(o)
        return
    with tempfile.TemporaryDirectory() as folder:
        run(o, o.files or pathlib.Path(folder))


if __name__ == "__main__":
    main()
