"""Networks: ONNX models, and declarations with many stages."""

import json
import os
import pathlib

from . import _heddle
from ._errors import Error
from ._profile import Profile
from ._report import Report
from ._tune import seconds_of, watch


class Network:
    """A declaration with many stages, cut into nodes that are compiled and tuned by themselves.

        net = Network(logits, inputs=[image])
        y = net(x)                                   # arrays of numpy, torch, jax or cupy; outputs are in the same library
        net(x, out=y)                                # writes into y

    outputs    tensors of the declaration
    inputs     the placeholders that calls pass, in their order; constants (heddle.constant) are no inputs
    target     a Target or its text; this machine where it is left out
    plan       the path of a plan (.heddle), whose choices are taken
    passes     changes of the passes over the graph, as the option --passes of the command line takes them
    tolerance  the error that outputs may have: the largest difference to f32 over the largest value. Products take the
               fastest types with which it holds on inputs that did not choose them; `precision` says what was chosen
    data       {name: samples} for the tolerance, the first dimension counts them; random inputs where it is left out
    updates    {state: next}: each call leaves `next` in the array of the input `state`, which must be writable
    loops      those of a model that was read from a file
    options    of the scheduler, as for create_schedule

    Calls from several threads at once are safe, and run without the GIL.
    """

    def __init__(self, outputs, inputs, *, target=None, plan=None, passes="", tolerance=None, data=None, names=None,
                 updates=None, loops=(), **options):
        outputs = [outputs] if isinstance(outputs, _heddle.Tensor) else list(outputs)
        self.inputs, self.outputs = list(inputs), outputs
        self._args = self.inputs + outputs
        self._names = names or [t.name for t in self._args]
        pairs = list(updates.items() if isinstance(updates, dict) else updates or [])
        self._graph = _heddle.NetworkGraph(outputs, target, passes, options, pairs, list(loops))
        self._dims, self._dtype = [], "f32"
        self._model = None  # the path of a file, and what `dims` says of it
        self._kernel = self._plan = None
        if plan is not None:
            self._graph = self._graph.with_plan(os.fspath(plan))
        self.precision = None  # the choice of types that the tolerance asked for
        if tolerance is not None:
            self._choose_types(tolerance, data)
        elif data is not None:
            raise Error("`data` are the samples of a tolerance, which is not given")

    def _choose_types(self, tolerance, data):
        if tolerance > 0 and self._graph.tolerance == tolerance:
            return  # the plan has the types for it
        self._graph, (text, choice) = self._graph._within(self._args, tolerance, dict(data or {}), self.input_names)
        self.precision = Report(text, json.loads(choice))

    @property
    def input_names(self):
        """The names of the inputs, which calls may use as keywords."""
        return self._names[: len(self.inputs)]

    @property
    def output_names(self):
        """The names of the outputs."""
        return self._names[len(self.inputs) :]

    @property
    def plan_use(self):
        """What was taken from the plan, in a line; empty where there was none."""
        return self._graph.plan_use

    @property
    def kernel(self):
        """The compiled network. It is compiled when it is first needed."""
        if self._kernel is None:
            self._kernel = self._graph.build(self._args)
        return self._kernel

    def __call__(self, *arrays, out=None, **named):
        """Runs the network on the arrays of its inputs, by position or by name. Returns an array, or a tuple of them; with
        `out`, an array or a list, None."""
        if named:
            arrays = self._in_order(arrays, named)
        if out is not None:
            return self.kernel(*arrays, *(out if isinstance(out, (list, tuple)) else [out]))
        return self.kernel(*arrays)

    def _in_order(self, arrays, named):
        names = self.input_names[len(arrays) :]
        for name in named:
            if name not in names:
                raise Error(f"'{name}' is no input that is left to give", help="inputs are " + ", ".join(self.input_names))
        missing = [name for name in names if name not in named]
        if missing:
            raise Error("these inputs are missing: " + ", ".join(missing))
        return [*arrays, *(named[name] for name in names)]

    def refresh(self):
        """Computes what depends on weights anew at the next call, after weights were changed in place."""
        if self._kernel is not None:
            self._kernel.refresh()

    def tune(self, budget="60s", *, log=None, plan=None, max_trials=0, until=0, seed=0, progress=True):
        """Searches for faster schedules and choices about the graph, and uses what it finds. Returns the report.

        budget     seconds, or a text such as "5m"
        log        a file to go on from and to append measurements to
        plan       the path of a plan (.heddle): tuning goes on from it where it exists, and writes it
        until      0.05: end when each node is probably within 5 % of what more tuning would find; 0: at the end of the budget
        progress   True: a bar; False: nothing; or a function that is called with a TuneProgress five times a second

        Ctrl-C ends the search and keeps what was found.
        """
        seconds = seconds_of(budget)
        file = os.fspath(plan) if plan is not None else ""
        log = os.fspath(log or "")
        run = _heddle._tune_network(self._graph, self._dims, seconds, log, max_trials, until, seed, file)
        tuned, report = watch(run, seconds, progress)
        self._plan = tuned.plan
        self._graph, self._kernel = tuned.plan.apply(self._graph), None
        if plan is not None:
            self.save_plan(plan)
        return report

    def save_plan(self, path):
        """Writes what tuning chose to a file that `plan=` and the command line read."""
        if self._plan is None:
            raise Error("there is no plan before tuning", help="call tune() first")
        path = os.fspath(path)
        model = ""
        if self._model is not None:
            file, dims = self._model
            model = os.path.relpath(file, os.path.dirname(os.path.abspath(path))) + (":" + dims if dims else "")
        self._plan.save(path, model, self._dtype)

    def export(self, folder, name=None):
        """Writes lib<name>.so, <name>.h and <name>.weights: a library that needs no Heddle. heddle.open calls it from Python."""
        if name is None:
            stem = pathlib.Path(self._model[0]).stem if self._model else "network"
            name = "".join(c if c.isascii() and c.isalnum() else "_" for c in stem)
        return self._graph.export(self._args, os.fspath(folder), name, self._names)

    def profile(self, *arrays, seconds=1.0):
        """Measures where the time of a call with these arrays is spent, node by node, for about `seconds`."""
        text, data = self.kernel._profile(*arrays, seconds=seconds)
        return Profile(text, json.loads(data))

    def explain(self, node=None, show=""):
        """The nodes of the network as text; or one node, by its number: its stages and its schedule, and with `show` its
        kernel ("loops", "llvm", "asm"; for a GPU "cuda")."""
        return self._graph.explain() if node is None else self._graph.explain_node(node, show)

    def __repr__(self):
        names = ", ".join(self.input_names), ", ".join(self.output_names)
        return f"Network({names[0]}) -> {names[1]}, {self._graph.num_nodes} nodes"


def _dims_of(dims):
    """Numbers, dimensions for ranges (lo, hi) or (lo, hi, multiple), and names of parts for sums "past+seq"."""
    fixed, ranges, sums, texts = {}, {}, {}, []
    for name, extent in (dims or {}).items():
        if isinstance(extent, int):
            fixed[name] = extent
            texts.append(f"{name}={extent}")
        elif isinstance(extent, str):
            sums[name] = extent.split("+")
            texts.append(f"{name}={extent}")
        else:
            lo, hi, *multiple = extent
            size = _heddle.dim(name, lo, hi)
            ranges[name] = size.multiple_of(multiple[0]) if multiple else size
            texts.append(f"{name}={lo}..{hi}" + (f"/{multiple[0]}" if multiple else ""))
    return fixed, ranges, sums, ",".join(texts)


def load(path, dims=None, dtype="f32", target=None, plan=None, passes="", tolerance=None, data=None, states=False, **options):
    """Reads an ONNX model.

        net = heddle.load("model.onnx", dims={"batch": (1, 32), "seq": 128}, dtype="f16")

    dims      the sizes of dimensions that the file leaves open: a number, or a range (lo, hi) or (lo, hi, multiple), of which
              each call takes a size; or a sum of others, "past+seq"
    states    past inputs of a decoder, which its present outputs repeat with rows behind them, are arrays that calls update
    dtype     the type of values between inputs and outputs: f32, f16 or bf16; inputs and outputs keep theirs
    target, plan, passes, tolerance, data, options   as for Network
    """
    path = os.fspath(path)
    fixed, ranges, sums, texts = _dims_of(dims)
    model = _heddle.import_onnx(path, fixed, ranges, dtype, sums, states, not states)
    net = Network(model.outputs, model.inputs, target=target, plan=plan, passes=passes, tolerance=tolerance, data=data,
                  names=model.input_names + model.output_names, updates=model.updates, loops=model.loops,
                  **options)
    net._dims, net._dtype = model.dims, dtype
    net._model = os.path.abspath(path), texts + (",states" if states else "")
    return net
