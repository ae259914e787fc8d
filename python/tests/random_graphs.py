"""Random functions of tensors, for comparing the backend of torch.compile with eager PyTorch.

    python3 random_graphs.py 2000 [seed]     compares so many, and prints the seeds that differ

A function is drawn by a seed: some inputs, then operators on what is there. A value is exact where rounding has no part in it;
operators that jump, such as floor and comparisons, read exact values only.
"""

import dataclasses
import random
import sys

import torch

F = torch.nn.functional


@dataclasses.dataclass
class Value:
    tensor: torch.Tensor  # as eager PyTorch computes it
    exact: bool
    text: str


SMOOTH = ["sin", "cos", "tanh", "sigmoid", "erf", "atan", "neg", "abs", "relu", "square", "reciprocal_", "exp_", "log_", "sqrt_", "rsqrt_",
          "silu", "gelu", "hardswish", "softplus_", "elu", "leaky", "log1p_", "expm1"]
FUNCTIONS = {
    "reciprocal_": lambda x: (x.abs() + 1).reciprocal(), "exp_": lambda x: x.clamp(-3, 3).exp(), "log_": lambda x: (x.abs() + 0.5).log(),
    "sqrt_": lambda x: (x.abs() + 0.1).sqrt(), "rsqrt_": lambda x: (x.abs() + 0.5).rsqrt(), "silu": F.silu, "gelu": F.gelu,
    "hardswish": F.hardswish, "softplus_": F.softplus, "elu": F.elu, "leaky": lambda x: F.leaky_relu(x, 0.2),
    "log1p_": lambda x: x.abs().log1p(), "expm1": lambda x: x.clamp(-3, 3).expm1()}
EXACT_OF_ONE = {"neg", "abs", "relu"}


class Draw:
    """A function, drawn by a seed. `inputs` are its arguments, and run(*inputs) its results."""

    def __init__(self, seed, steps=8):
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.steps, self.values = [], []
        self.inputs = [self._input() for _ in range(self.random.randint(1, 3))]
        self.values = [Value(t, True, f"x{i}") for i, t in enumerate(self.inputs)]
        while len(self.steps) < steps:
            self._step()
        used = {i for _, of in self.steps for i in of}
        self.results = [i for i in range(len(self.inputs), len(self.values)) if i not in used] or [len(self.values) - 1]

    def run(self, *inputs):
        values = list(inputs)
        for function, of in self.steps:
            values.append(function(*(values[i] for i in of)))
        return tuple(values[i] for i in self.results)

    def __str__(self):
        return "\n".join(f"{v.text}: {v.tensor.dtype} {tuple(v.tensor.shape)}" for v in self.values)

    # ---- drawing ----

    def _input(self):
        shape = [self.random.choice([1, 2, 3, 4, 5, 7, 8, 16]) for _ in range(self.random.randint(1, 4))]
        tensor = torch.randn(shape) if self.random.random() < 0.85 else torch.randint(-5, 6, shape)
        if len(shape) > 1 and self.random.random() < 0.3:  # in another order, or with gaps
            tensor = tensor.transpose(0, -1) if self.random.random() < 0.6 else torch.stack([tensor, tensor], -1)[..., 0]
        return tensor

    def _pick(self, wanted=lambda v: True):
        found = [i for i, v in enumerate(self.values) if wanted(v)]
        return self.random.choice(found) if found else None

    def _add(self, name, function, *of, exact=False):
        tensor = function(*(self.values[i].tensor for i in of))
        if 0 < tensor.numel() <= 20_000:
            self.steps.append((function, of))
            self.values.append(Value(tensor, exact and all(self.values[i].exact for i in of), f"v{len(self.values)} = {name}{list(of)}"))

    def _step(self):
        self.random.choice([self._of_one, self._of_one, self._of_two, self._of_two, self._reduced, self._moved, self._moved, self._product,
                            self._normalized, self._image, self._jump, self._cast, self._gathered])()

    def _of_one(self):
        i = self._pick(lambda v: v.tensor.is_floating_point())
        if i is not None:
            name = self.random.choice(SMOOTH)
            self._add(name, FUNCTIONS.get(name) or getattr(torch, name), i, exact=name in EXACT_OF_ONE)

    def _partner(self, i):
        """A value that broadcasts with number i."""
        def fits(v):
            try:
                return torch.broadcast_shapes(v.tensor.shape, self.values[i].tensor.shape) is not None
            except RuntimeError:
                return False
        return self._pick(fits)

    def _of_two(self):
        i = self._pick(lambda v: v.tensor.dtype != torch.bool)
        if i is None:
            return
        number = self.random.choice([2, -1, 0.5, 3])
        if self.random.random() < 0.3:
            name, function = self.random.choice([("add", lambda x: x + number), ("mul", lambda x: x * number), ("rsub", lambda x: number - x),
                                                 ("maximum", lambda x: x.clamp_min(number))])
            return self._add(f"{name} {number}", function, i)
        j = self._partner(i)
        name = self.random.choice(["add", "sub", "mul", "maximum", "minimum", "where", "div"])
        functions = {"where": lambda a, b: torch.where(a > 0, a, b.to(a.dtype)), "div": lambda a, b: a / (b.abs() + 1)}
        if name == "where" and not self.values[i].exact or self.values[j].tensor.dtype == torch.bool:
            return
        self._add(name, functions.get(name) or getattr(torch, name), i, j, exact=name in ("maximum", "minimum", "where"))

    def _axes(self, tensor):
        return tuple(self.random.sample(range(tensor.dim()), self.random.randint(1, tensor.dim())))

    def _reduced(self):
        i = self._pick(lambda v: v.tensor.is_floating_point() and v.tensor.dim() > 0)
        if i is None:
            return
        axes, keep = self._axes(self.values[i].tensor), self.random.random() < 0.5
        name = self.random.choice(["sum", "mean", "amax", "amin", "var_", "logsumexp", "cumsum_"])
        functions = {"var_": lambda x: x.var(axes, correction=0, keepdim=keep), "cumsum_": lambda x: x.cumsum(axes[0]),
                     "logsumexp": lambda x: x.logsumexp(axes, keep)}
        function = functions.get(name) or (lambda x: getattr(x, name)(axes, keep))
        self._add(f"{name} {axes} {keep}", function, i, exact=name in ("amax", "amin"))

    def _moved(self):
        i = self._pick(lambda v: v.tensor.dim() > 0)
        if i is None:
            return
        x = self.values[i].tensor
        axis = self.random.randrange(x.dim())
        order = self.random.sample(range(x.dim()), x.dim())
        first = self.random.randrange(x.shape[axis])
        step, shift = self.random.randint(1, 2), self.random.randint(-3, 3)
        amounts = [self.random.randint(0, 2) for _ in range(2)]
        self._add(*self.random.choice([
            (f"permute {order}", lambda x: x.permute(order)), ("flatten", lambda x: x.reshape(-1)),
            (f"reshape {axis}", lambda x: x.reshape(*x.shape[:axis], -1)), (f"slice {axis} {first} {step}", lambda x: x.narrow(axis, first, x.shape[axis] - first).unfold(axis, 1, step).squeeze(-1)),
            (f"flip {axis}", lambda x: x.flip(axis)), (f"roll {shift} {axis}", lambda x: x.roll(shift, axis)), (f"unsqueeze {axis}", lambda x: x.unsqueeze(axis)),
            (f"cat {axis}", lambda x: torch.cat([x, x.narrow(axis, first, 1)], axis)), (f"select {axis} {first}", lambda x: x.select(axis, first)),
            (f"expand {axis}", lambda x: x.narrow(axis, first, 1).expand_as(x)), (f"pad {amounts}", lambda x: F.pad(x, amounts, value=1)),
            (f"repeat {axis}", lambda x: x.repeat([2 if d == axis else 1 for d in range(x.dim())])), (f"stack {axis}", lambda x: torch.stack([x, x], axis)),
        ]), i, exact=True)

    def _product(self):
        i = self._pick(lambda v: v.tensor.dtype == torch.float32 and v.tensor.dim() in (2, 3))
        if i is None:
            return
        width, count = self.values[i].tensor.shape[-1], self.random.choice([1, 3, 8])
        weight = torch.randn(count, width) / width ** 0.5
        self._add(*self.random.choice([("linear", lambda x: F.linear(x, weight.to(x.device))), ("gram", lambda x: x @ x.transpose(-1, -2) / width),
                                       ("attention", lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None])[0] if x.dim() == 3 else x @ weight.t())]), i)

    def _normalized(self):
        i = self._pick(lambda v: v.tensor.dtype == torch.float32 and v.tensor.dim() > 0 and v.tensor.shape[-1] > 1)
        if i is None:
            return
        axis = self.random.randrange(self.values[i].tensor.dim())
        self._add(*self.random.choice([(f"softmax {axis}", lambda x: x.softmax(axis)), (f"log_softmax {axis}", lambda x: x.log_softmax(axis)),
                                       ("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:], eps=0.1)), ("normalize", lambda x: F.normalize(x, dim=axis, eps=0.1))]), i)

    def _image(self):
        i = self._pick(lambda v: v.tensor.dtype == torch.float32 and v.tensor.dim() == 4 and min(v.tensor.shape[2:]) > 2)
        if i is None:
            return
        channels = self.values[i].tensor.shape[1]
        weight, stride, padding = torch.randn(4, channels, 3, 3) / 3, self.random.randint(1, 2), self.random.randint(0, 1)
        single = torch.randn(channels, 1, 3, 3) / 3
        self._add(*self.random.choice([
            (f"conv {stride} {padding}", lambda x: F.conv2d(x, weight, None, stride, padding)), ("depthwise", lambda x: F.conv2d(x, single, None, stride, padding, groups=channels)),
            ("max_pool", lambda x: F.max_pool2d(x, 2, stride)), ("avg_pool", lambda x: F.avg_pool2d(x, 3, stride, padding)),
            ("adaptive", lambda x: F.adaptive_avg_pool2d(x, (2, 1))), ("nearest", lambda x: F.interpolate(x, scale_factor=2.0)),
        ]), i)

    def _jump(self):
        i = self._pick(lambda v: v.exact and v.tensor.dtype != torch.bool and v.tensor.dim() > 0)
        if i is None:
            return
        axis = self.random.randrange(self.values[i].tensor.dim())
        self._add(*self.random.choice([("floor", lambda x: x.floor()), ("sign", lambda x: x.sign()), ("gt", lambda x: x > 0.25), ("ge_any", lambda x: (x >= 1).any(axis)),
                                       ("argmax", lambda x: x.argmax(axis)), ("remainder", lambda x: x.remainder(3)), ("fmod", lambda x: torch.fmod(x, 2)), ("round", lambda x: x.round())]), i, exact=True)

    def _cast(self):
        i = self._pick(lambda v: v.exact)
        if i is not None:
            dtype = self.random.choice([torch.float32, torch.float64, torch.int64, torch.int32, torch.bool])
            self._add(f"to {dtype}", lambda x: x.to(dtype), i, exact=True)

    def _gathered(self):
        i = self._pick(lambda v: v.tensor.dim() > 0)
        if i is None:
            return
        x = self.values[i].tensor
        axis = self.random.randrange(x.dim())
        at = torch.randint(0, x.shape[axis], (3,))
        self._add(*self.random.choice([(f"index_select {axis}", lambda x: x.index_select(axis, at)), (f"index {axis}", lambda x: x[(slice(None),) * axis + (at,)]),
                                       (f"where_index {axis}", lambda x: torch.where(x == x, x, x.roll(1, axis)))]), i, exact=True)


def compiled(function, *inputs):
    """A function compiled by Heddle, without TorchDynamo, which would take most of the time. Parts of one node are compiled, too."""
    from heddle.torch import _part
    from heddle.torch._decompositions import decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    _part._LEAST_NODES, least = 1, _part._LEAST_NODES
    try:
        return _part.parts_of(make_fx(function, decompositions())(*inputs), set(), {})
    finally:
        _part._LEAST_NODES = least


def difference(seed):
    """None where Heddle computes what eager PyTorch does; else what is wrong, as text."""
    drawn = Draw(seed)
    try:
        found = compiled(drawn.run, *drawn.inputs)(*drawn.inputs)
        for f, e in zip(found, drawn.run(*drawn.inputs), strict=True):
            torch.testing.assert_close(f, e, rtol=2e-3, atol=2e-3, equal_nan=True)
    except Exception as error:  # whatever it is, the seed is wanted
        return f"seed {seed}: {type(error).__name__}: {error}\n{drawn}"
    return None


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    wrong = 0
    for number in range(seed, seed + count):
        text = difference(number)
        if text is not None:
            wrong += 1
            print(text, flush=True)
    print(f"{count - wrong} of {count} functions are right")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
