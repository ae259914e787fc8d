"""Backward passes and training steps as libraries of Heddle's: what `training.py declare` writes."""
import json
import pathlib
import time

from cases import INNERMOST, cases
from networks import Declared, networks


def order_of(role, layout):
    """The order of the dimensions of ours, or None where it is PyTorch's."""
    return INNERMOST.get(role) if layout == "NHWC" else None


def backward(hd, case, layout, dtype, forward):
    """Outputs and inputs of the backward pass; with `forward` the result of the forward pass is an output too."""
    tensors = []
    for i, given in enumerate(case.inputs):
        order = order_of(given.role, layout)
        shape = given.shape if order is None else tuple(given.shape[d] for d in order)
        tensors.append(hd.placeholder(shape, "i64" if given.role == "index" else dtype, f"x{i}"))
    y = case.ours(hd.ops, layout, *tensors)
    head = hd.placeholder(tuple(y.shape), dtype, "head")
    wrt = [t for t, given in zip(tensors, case.inputs) if given.role != "index"]
    outputs = ([y] if forward else []) + list(hd.gradient([y], wrt, [head]))
    used = set(hd.placeholders(outputs))
    return outputs, [t for t in [*tensors, head] if t in used], {}


def step(hd, name, image, layout, dtype):
    """A training step: the loss, its inputs, and the updates of weights and states."""
    function, shape, role, _, optimiser = networks(image)[name]
    order = order_of(role, layout)
    shape = shape if order is None else tuple(shape[d] for d in order)
    x = hd.placeholder(shape, "i64" if role == "index" else "f32", "x")
    labels = hd.placeholder(shape if role == "index" else shape[:1], "i64", "labels")
    backend = Declared(layout, dtype)
    loss = backend.cross_entropy(function(backend, x), labels)
    updates, inputs = {}, [x, labels]
    extra = [hd.placeholder((1,), "f32", part) for part in ("step", "rate")] if optimiser == "adam" else []
    for w, dw in zip(backend.weights, hd.gradient([loss], backend.weights)):
        states = [hd.placeholder(tuple(w.shape), "f32", f"{w.name}/{part}") for part in ("mean", "square")[:2 if extra else 1]]
        moved = hd.ops.adam(w, dw, *states, *extra, decay=0.01) if extra else hd.ops.sgd(w, dw, *states, rate=0.01, momentum=0.9)
        updates |= dict(zip([w, *states], moved))
        inputs += [w, *states]
    return [loss], inputs + extra, updates


def jobs(options):
    """(description, a function of the package that declares) of everything that is asked for."""
    if "backward" in options.what:
        for case in cases(options.scale):
            for mode in ("backward", "both"):
                yield {"title": case.title, "size": case.size, "mode": mode}, \
                    lambda hd, c=case, m=mode: backward(hd, c, options.layout, options.dtype, m == "both")
    if "steps" in options.what:
        for name in networks(options.image):
            yield {"title": name, "size": "", "mode": "step"}, lambda hd, n=name: step(hd, n, options.image, options.layout, options.dtype)


def write(hd, declared, options, folder, slug, passes=""):
    """The library of a declaration; the figures of it."""
    outputs, inputs, updates = declared
    begin = time.perf_counter()
    network = hd.Network(outputs, inputs, target=options.target, passes=passes, updates=updates)
    files = network.export(folder / slug, slug)
    return {"library": f"{slug}/lib{slug}.so", "buffers": files.arena_bytes, "launches": files.steps, "export_seconds": time.perf_counter() - begin}


def declare(options):
    import heddle as hd
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.json"
    rows = {key_of(r): r for r in json.loads(path.read_text())} if path.exists() else {}
    for number, (row, make) in enumerate(jobs(options)):
        if options.only not in row["title"]:
            continue
        row |= {"dtype": options.dtype, "layout": options.layout, "scale": options.scale, "image": options.image}
        name = f"n{number}_{options.dtype}"
        try:
            row |= write(hd, make(hd), options, folder, name)
        except hd.Error as error:  # one case that fails hides no other
            row["error"] = str(error)
        if row["mode"] == "step" and "error" not in row:
            # Half of what the buffers take where nothing is computed again, as large steps do what costs next to nothing.
            row["kept"] = write(hd, make(hd), options, folder, name + "_kept", "memory=1024G")["buffers"]
            try:
                row["half"] = write(hd, make(hd), options, folder, name + "_half", f"memory={row['kept'] // 2 // 1024}K")
            except hd.Error as error:  # what cannot be computed again may take more than half
                row["no_half"] = str(error)
        rows[key_of(row)] = row
        path.write_text(json.dumps(list(rows.values()), indent=1))
        print(json.dumps(row), flush=True)


def key_of(row):
    return row["title"], row["size"], row["mode"], row["dtype"]
