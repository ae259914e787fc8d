"""Heddle's libraries and PyTorch in turns: what `training.py run` measures."""
import ctypes
import platform
import time

import torch
import torch.nn.functional as F

import exported
from cases import cases
from declare import order_of
from networks import Torch, networks
from race import race, second_call

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "i64": torch.int64,
         "i32": torch.int32}
TOLERANCE = {"f32": 1e-3, "f16": 3e-2, "bf16": 6e-2}  # of the largest difference, relative to the largest element
BEHIND = 2_000_000  # cycles that a GPU waits before it times calls: a millisecond, in which 20 calls are launched
MOVED = {"f32": 2e-2, "f16": 0.3, "bf16": 0.3}        # of the difference of the weights, relative to how far they moved


class Ours:
    """A library on tensors of PyTorch, by name. Calls write its outputs, and inputs that are updated."""

    def __init__(self, path, tensors, device):
        self.network, self.device = exported.Network(path), device
        self.inputs = [tensors[name] for name, _, _ in self.network.inputs]
        assert all(t.is_contiguous() for t in self.inputs)
        self.outputs = [torch.empty(shape, dtype=TYPES[dtype], device=device) for shape, dtype in self.network.types("output")]
        self.addresses = [t.data_ptr() for t in self.inputs], [t.data_ptr() for t in self.outputs]

    def __call__(self):
        if self.device == "cuda":
            self.network.run_on_gpu(*self.addresses, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        else:
            self.network.run_on_cpu(*self.addresses)
        return self.outputs


def machine(options):
    if options.device == "cuda":
        return f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
    return f"{platform.processor() or platform.machine()}, {options.threads} threads, PyTorch {torch.__version__}"


def cpu_seconds(call):
    """What the second of two calls takes of the processors: other processes on a busy machine count little."""
    call()
    begin = time.process_time()
    call()
    return time.process_time() - begin


def in_turns(calls, options):
    if options.device == "cpu":
        wall = lambda call: second_call(call, pause=0.03)
        return race(calls, options.seconds, cpu_seconds if options.clock == "cpu" else wall)
    from gpu_side_by_side import race_on_gpu
    return race_on_gpu(calls, options.seconds, BEHIND)


def graph(call, options):
    """The call as a CUDA graph on a GPU."""
    if options.device == "cpu":
        return call
    from gpu_side_by_side import captured
    return captured(call, ())


def theirs_of(t, row):
    """A tensor of PyTorch in the layout of a row."""
    return t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 and row["layout"] == "NHWC" else t


def ours_of(t, role, row):
    """The same numbers in the order of ours."""
    order = order_of(role, row["layout"])
    return (t if order is None else t.permute(order)).detach().contiguous()


def gap(found, wanted):
    return ((found.double() - wanted.double()).abs().max() / wanted.double().abs().max().clamp_min(1e-30)).item()


# ---- backward passes ----

def backward(row, folder, options):
    (case,) = [c for c in cases(row["scale"]) if (c.title, c.size) == (row["title"], row["size"])]
    if options.device == "cuda":  # a graph is captured on such a stream, on which the forward pass must run as well
        torch.cuda.set_stream(torch.cuda.Stream())
    make = torch.Generator(options.device).manual_seed(1)
    tensors = []
    for given in case.inputs:
        if given.role == "index":
            t = torch.randint(given.below, given.shape, generator=make, device=options.device)
        else:
            t = torch.rand(given.shape, generator=make, device=options.device).mul_(2).sub_(1).to(TYPES[row["dtype"]])
            t = theirs_of(t, row).requires_grad_()
        tensors.append(t)
    wrt = [t for t in tensors if t.requires_grad]
    y = case.theirs(F, *tensors)
    roles = [given.role for given in case.inputs]
    of_y = "image" if "image" in roles else "plain"
    head = theirs_of(torch.rand(y.shape, generator=make, device=options.device).mul_(2).sub_(1).to(y.dtype), row)

    def theirs():
        if row["mode"] == "backward":
            return torch.autograd.grad(y, wrt, head, retain_graph=True)
        again = case.theirs(F, *tensors)
        return again.detach(), *torch.autograd.grad(again, wrt, head)

    named = {f"x{i}": ours_of(t, role, row) for i, (t, role) in enumerate(zip(tensors, roles))} | {"head": ours_of(head, of_y, row)}
    ours = Ours(folder / row["library"], named, options.device)
    result_roles = ([of_y] if row["mode"] == "both" else []) + [role for role in roles if role != "index"]
    wanted = [ours_of(t, role, row) for t, role in zip(theirs(), result_roles)]
    difference = max(gap(found, want) for found, want in zip(ours(), wanted, strict=True))
    seconds = in_turns({"heddle": ours, "eager": graph(theirs, options)}, options)
    return {**row, "seconds": seconds, "difference": difference, "right": difference <= TOLERANCE[row["dtype"]]}


# ---- training steps ----

class Step:
    """A training step of PyTorch's on weights of its own, compiled by a backend of torch.compile or eager."""

    def __init__(self, row, first, x, labels, backend, device):
        function, _, _, _, optimiser = networks(row["image"])[row["title"]]
        self.weights = [w.clone().requires_grad_() for w in first]
        self.narrow, self.device = TYPES[row["dtype"]], device
        if optimiser == "adam":
            self.optimiser = torch.optim.AdamW(self.weights, 1e-3, weight_decay=0.01, capturable=device == "cuda")
        else:
            self.optimiser = torch.optim.SGD(self.weights, 0.01, momentum=0.9)
        self.update = self.optimiser.step

        def loss():
            with torch.autocast(device, self.narrow, enabled=self.narrow != torch.float32):
                declared = Torch(self.weights)
                return declared.cross_entropy(function(declared, x), labels)

        self.loss = torch.compile(loss, dynamic=False, backend=backend) if backend else loss
        if backend:
            self.update = torch.compile(self.optimiser.step, dynamic=False)

    def __call__(self):
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.loss()
        loss.backward()
        self.update()
        return loss.detach()


def peak_bytes(call, device):
    """The most bytes that a call has beyond those before it."""
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    most = now = 0
    for event in sorted((e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def moved(ours, theirs, first):
    """How far the weights of the two are apart, relative to how far they moved."""
    square = lambda pairs: sum(((a - b).double() ** 2).sum().item() for a, b in pairs)
    return (square(zip(ours, theirs)) / max(square(zip(theirs, first)), 1e-30)) ** 0.5


def our_tensors(x, labels, first, shapes, row, role):
    named = {"x": ours_of(x, role, row), "labels": labels, "step": torch.ones(1), "rate": torch.full((1,), 1e-3)}
    for w, (name, _, of) in zip(first, shapes):
        named[name] = ours_of(w, of, row).clone()
        for part in ("mean", "square"):
            named[f"{name}/{part}"] = torch.zeros_like(named[name])
    return {name: t.to(x.device) for name, t in named.items()}


def step(row, folder, options):
    function, shape, role, classes, _ = networks(row["image"])[row["title"]]
    make = torch.Generator(options.device).manual_seed(1)
    if role == "index":
        x = torch.randint(classes, shape, generator=make, device=options.device)
    else:
        x = theirs_of(torch.rand(shape, generator=make, device=options.device), row)
    labels = torch.randint(classes, shape if role == "index" else shape[:1], generator=make, device=options.device)
    shapes = Torch()
    function(shapes, x.to("meta"))
    shapes = shapes.shapes
    first = []
    for name, extents, _ in shapes:
        bound = (3 / max(1, torch.Size(extents[1:]).numel())) ** 0.5 if len(extents) > 1 else 0
        w = torch.rand(extents, generator=make, device=options.device).mul_(2).sub_(1).mul_(bound)
        first.append(theirs_of(w + 1 if name.endswith("scale") else w, row))

    torch._dynamo.reset()
    backends = {"eager": None, "inductor": "inductor"}
    if options.through_torch:
        import heddle.torch  # noqa: F401, registers the backend
        backends["aot"] = "heddle"
    peers = {name: Step(row, first, x, labels, backend, options.device) for name, backend in backends.items()}
    ours = {name: Ours(folder / place["library"], our_tensors(x, labels, first, shapes, row, role), options.device)
            for name, place in (("heddle", row), ("half", row.get("half"))) if place}
    difference, apart, of_peer = compared(peers, ours, first, shapes, row)
    for peer in peers.values():  # gradients of the steps before count as those of this one do
        peer.optimiser.zero_grad(set_to_none=True)
    memory = {n: peak_bytes(p, options.device) for n, p in peers.items()}
    memory |= {name: place["buffers"] for name, place in (("heddle", row), ("half", row.get("half"))) if place}
    for peer in peers.values():
        peer.optimiser.zero_grad(set_to_none=True)
    seconds = in_turns(ours | {name: graph(peer, options) for name, peer in peers.items()}, options)
    return {**row, "seconds": seconds, "memory": memory, "difference": difference, "apart": apart,
            "apart_peer": of_peer, "right": difference <= TOLERANCE[row["dtype"]] and apart <= max(MOVED[row["dtype"]], 2 * of_peer)}


def compared(peers, ours, first, shapes, row):
    """The largest difference of the losses of three steps, how far the weights are apart after them, and how far those of
    PyTorch's two ways are: steps of some networks enlarge what rounding leaves."""
    difference = apart = 0.0
    in_our_order = lambda weights: [ours_of(w, of, row) for w, (_, _, of) in zip(weights, shapes)]
    wanted = [peers["eager"]().item() for _ in range(3)]
    for _ in range(3):
        for name in peers.keys() - {"eager"}:
            peers[name]()
    theirs, begun = in_our_order(peers["eager"].weights), in_our_order(first)
    of_peer = moved(in_our_order(peers["inductor"].weights), theirs, begun)
    if "aot" in peers:
        apart = moved(in_our_order(peers["aot"].weights), theirs, begun)
    for run in ours.values():
        by_name = dict(zip((name for name, _, _ in run.network.inputs), run.inputs))
        for want in wanted:
            loss = run()[0].item()
            difference = max(difference, abs(loss - want) / abs(want))
            if "step" in by_name:
                by_name["step"] += 1
        apart = max(apart, moved([by_name[name] for name, _, _ in shapes], theirs, begun))
    return difference, apart, of_peer


def measured(row, folder, options):
    torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return (step if row["mode"] == "step" else backward)(row, folder, options)
