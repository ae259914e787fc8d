"""The whole set of measurements of a machine, for scripts/results.py: which commands, and what is kept of them.

A command has the time that is left, and is ended when it is over; what it wrote until then counts. The file is written
after each command. Networks are named in an order that the budget may cut.
"""
import datetime
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Lists of `heddle bench` and their names in the results.
CPU_LISTS = {"matmul": "matrix products", "batch_matmul": "batched products", "conv": "convolutions of ResNet-50",
             "depthwise": "depthwise convolutions", "conv_other": "other convolutions", "fused": "fused blocks",
             "memory": "memory-bound subjects"}
# Lists of bench/gpu/side_by_side.py: name, type, whether Inductor is the peer. Elsewhere it is cuBLAS (beside
# cuBLASLt with a search of its own), cuDNN or attention.
GPU_LISTS = {"matmul16": ("products", "bf16", False), "resnet32_nhwc": ("convolutions, batch 32", "f16", False),
             "resnet1_nhwc": ("convolutions, batch 1", "f16", False), "attention": ("attention blocks", "f16", False),
             "decode": ("steps of decoding", "f16", False), "memory": ("memory-bound subjects", "f32", True)}
# Every network of bench/networks/export_models.py, those of different kinds first.
NETWORKS = ("resnet50 bert mobilenet_v2 vit_b_16 efficientnet_b0 gpt2 swin_t unet lstm detector convnext_tiny llama "
            "densenet121 mobilenet_v3 inception_v3 shufflenet_v2 efficientnet_v2_s regnet_y_400mf resnext50 resnet18 "
            "squeezenet vgg16").split()
# Columns of the benches of networks -> the peer. Of several settings of one peer the fastest counts.
COLUMNS = {"onnxruntime": "ONNX Runtime", "onnxruntime best": "ONNX Runtime", "openvino": "OpenVINO",
           "torch.compile": "torch.compile", "torch.compile max-autotune": "torch.compile",
           "torch.compile reduce-overhead": "torch.compile", "torch graph": "PyTorch, eager, captured"}
PACKAGES = {"onnxruntime": "ONNX Runtime {} (default options and its best, the faster)", "openvino": "OpenVINO {} (f32)",
            "torch": "PyTorch {}", "onednn": "oneDNN {} of PyTorch",
            "cublaslt": "cuBLASLt {} (all algorithms that its heuristic names timed, the fastest kept)"}
# Columns of the benches of kernels, as the results name them.
KERNEL_PEERS = {"openblas": "OpenBLAS", "onednn": "oneDNN 2.6", "onednn_winograd": "oneDNN 2.6", "blis": "BLIS", "mkl": "MKL", "eager": "PyTorch (its libraries)",
                "inductor": "PyTorch Inductor", "cublaslt": "cuBLASLt, its own search",
                **dict.fromkeys(("torch.mm", "torch.bmm", "torch._int_mm", "packed linear", "packed conv", "packed qconv",
                                 "packed qconv, u8"), "oneDNN 3 of PyTorch")}
PEER_NAMES = {"openblas": "OpenBLAS", "onednn": "oneDNN", "blis": "BLIS", "mkl": "MKL"}
AT_ONCE = 4  # networks of one command on a GPU: it exports all of them before it times any


def kernel_groups(name, document, only=None):
    """The subjects of a run of `heddle bench --json` or a side_by_side.py --json that have a peer. Where a library takes
    part with a search of its own, it and the others have a group each."""
    if only is None and any("cublaslt" in r.get("us", {}) for r in document["results"]):
        return kernel_groups(name, document, ["eager"]) + kernel_groups(name, document, ["cublaslt"])
    results, peers = [], set()
    for r in document["results"]:
        times = r.get("times_ms") or r.get("us")
        others = {n: t for n, t in times.items() if n not in ("static", "tuned", "naive") and (only is None or n in only)}
        if "static" not in times or not others or not r.get("right", True):
            continue
        best = min(others, key=others.get)
        peer = KERNEL_PEERS.get(best, best)
        peers.add(peer)
        results.append({"subject": r["subject"], "ours": times["static"], "peer": others[best], "best": peer})
    return [{"name": f"{len(results)} {name}", "peer": ", ".join(sorted(peers)), "results": results}] if results else []


def network_groups(documents):
    """A group for each peer and setting (threads of a CPU, batch of a GPU): each network that was timed, once."""
    groups = {}
    for r in (r for document in documents for r in document["results"] if r["right"]):
        setting = (f"f32, {r['threads']} thread{'s' * (r['threads'] > 1)}" if "threads" in r
                   else f"{r['precision']}, batch {r['batch']}")
        peers = {}
        for column, seconds in r["seconds"].items():
            if peer := COLUMNS.get(column):
                peers[peer] = min(seconds, peers.get(peer, seconds))
        for peer, seconds in peers.items():
            groups.setdefault((setting, peer), {}).setdefault(
                r["network"], {"subject": r["network"], "ours": 1e3 * r["seconds"]["heddle"], "peer": 1e3 * seconds})
    return [{"name": f"{len(results)} networks {setting}", "peer": peer, "results": list(results.values())}
            for (setting, peer), results in sorted(groups.items())]


def cpu_steps(o):
    """(list, command, what its document becomes); networks have no name."""
    for name, words in CPU_LISTS.items():
        yield name, [f"{o.build}/bin/heddle", "bench", "--workloads", name, "--threads", o.threads, "--no-naive", "--time",
                     "0.08", "--peers", "openblas,onednn,blis,libxsmm,mkl"], words
    yield "onednn", ["bench/onednn/side_by_side.py", "--library", f"{o.build}/lib/libheddle_cpu.so", "--threads", o.threads,
                    "--seconds", "0.7"], "subjects, several types"
    yield "networks", ["bench/networks/side_by_side.py", *o.networks, "--heddle", f"{o.build}/bin/heddle", "--threads", o.threads,
                      "--seconds", "2"], None


def gpu_steps(o):
    for name, (words, dtype, inductor) in GPU_LISTS.items():
        yield name, ["bench/gpu/side_by_side.py", "--library", f"{o.build}/lib/libheddle_gpu.so", "--dtype", dtype,
                     "--rounds", "8", "--list", name, *([] if inductor else ["--no-compile"])], f"{words} {dtype}"
    def networks(names, *more):
        return ["bench/networks/gpu_side_by_side.py", *names, "--heddle", f"{o.build}/bin/heddle", "--batch", "1,32", "--dtype",
                "f16", "--seconds", "0.5", *more]

    for i in range(0, len(o.networks), AT_ONCE):
        yield "networks", networks(o.networks[i : i + AT_ONCE]), None
    for name in o.networks[:AT_ONCE]:  # torch.compile takes minutes for a network, so these come last
        yield "compiled", networks([name], "--compiled", "reduce-overhead,max-autotune"), None


def machine_of(kind):
    if kind == "gpu":
        import torch
        return torch.cuda.get_device_name()
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*: (.*)$", info, re.M)
    return f"{model[1] if model else 'a CPU'}, {len(re.findall('^processor', info, re.M))} processors"


def peers_of(document):
    """The versions that a document names."""
    if "peers" in document:
        return [PACKAGES[name].format(version) for name, version in document["peers"].items()]
    known = document["machine"]["peers"]
    versions = {n: re.search(r"\d[\d.]*", p.get("version") or "") for n, p in known.items()}
    return [f"{PEER_NAMES.get(n, n)} {version[0]}" for n, version in versions.items() if version]


def run(command, seconds):
    """The document that the command wrote, or None where it wrote none."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "r.json"
        python = [sys.executable] if command[0].endswith(".py") else []
        try:
            status = subprocess.run([*python, *command, "--json", str(path)], cwd=ROOT, timeout=seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            status = "the end of the time"
        if status != 0:
            print(f"{' '.join(command)}: {status}", file=sys.stderr)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def commit():
    git = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return git.stdout.strip() or "unknown"


def measure(o):
    machine = o.machine or machine_of(o.set)
    out = pathlib.Path(o.out or ROOT / f"bench/results/{o.set}-{re.sub('[^a-z0-9]+', '-', machine.lower()).strip('-')}.json")
    file = {"machine": f"{machine}, {o.threads} threads" if o.set == "cpu" else machine,
            "date": datetime.date.today().isoformat(), "commit": commit(), "choice": "not tuned", "peers": "",
            "commands": [], "left_out": [], "groups": []}
    end, networks, peers = time.monotonic() + 60 * o.minutes, [], {}
    for name, command, words in (cpu_steps if o.set == "cpu" else gpu_steps)(o):
        if o.lists and name not in o.lists:
            continue
        command += o.options
        left = end - time.monotonic()
        without = command[0].endswith(".py") and not importlib.util.find_spec("torch")
        document = None if left < 20 or without else run(command, left)
        if document is None:
            file["left_out"].append(f"{' '.join(command)}: {'no PyTorch' if without else 'no time, or it failed'}")
        else:
            file["commands"].append(" ".join(command))
            peers |= dict.fromkeys(peers_of(document))
            if words:
                file["groups"] += kernel_groups(words, document)
            else:
                networks.append(document)
        file["peers"] = ", ".join(peers)
        shown = {**file, "groups": file["groups"] + network_groups(networks)}
        out.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    print(f"{out}: {len(shown['groups'])} groups" + "".join(f"\nleft out: {line}" for line in file["left_out"]))
