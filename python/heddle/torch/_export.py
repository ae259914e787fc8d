"""Programs of torch.export as networks of Heddle."""

import torch

import heddle
from heddle import ops

from ._declare import Held, Like, declare, declare_over, supports
from ._decompositions import decompositions
from ._layout import inverse
from ._rewrite import rewrite
from ._sizes import at, expressions_of, places_of

_Kind = torch.export.graph_signature.InputKind


def _weights_of(program):
    """By position, the tensors that a program holds."""
    held = {}
    for position, spec in enumerate(program.graph_signature.input_specs):
        if spec.kind != _Kind.USER_INPUT:
            held[position] = program.state_dict[spec.target] if spec.target in program.state_dict else program.constants[spec.target]
    return {position: tensor.detach().cpu() for position, tensor in held.items()}


def _check(program):
    """An Error for what Heddle cannot declare."""
    left = sorted({str(n.target) for n in program.graph.nodes if n.op == "call_function" and not supports(n)
                   and not isinstance(n.meta.get("val"), (torch.SymInt, int))})
    if left:
        raise heddle.Error("a program has operators that have no rule: " + ", ".join(left),
                           help='torch.compile(module, backend="heddle") leaves these to PyTorch')
    changed = [spec.target for spec in program.graph_signature.output_specs if spec.target is not None]
    if changed:
        raise heddle.Error("a program changes tensors that it holds: " + ", ".join(changed), help="export the module after module.eval()")


def _dimensions(program, symbols):
    """A dimension for each symbol. Its range is that of the program."""
    dims = {}
    for symbol in symbols:
        bounds = program.range_constraints[symbol]
        if not bounds.upper.is_Integer or bounds.upper > 2**31:
            raise heddle.Error(f"the dimension {symbol} has no largest size", help='export with torch.export.Dim("batch", min=1, max=32)')
        dims[symbol] = heddle.dim(str(symbol), max(1, int(bounds.lower)), int(bounds.upper))
    return dims


def _usual(output):
    return output.tensor if output.order is None else ops.transpose(output.tensor, inverse(output.order))


def from_torch(program, *, target=None, plan=None, passes="", **options):
    """A network of a program of torch.export.

        program = torch.export.export(module.eval(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=32)}})
        net = heddle.from_torch(program)
        y = net(x)                           # also net.tune(), net.export() and so on, as for heddle.load

    Dimensions that the program leaves open are those of the network. Weights are shared where they are on the CPU; after changes call
    net.refresh(). Throws an Error that names operators that have no rule. target, plan, passes, options: as for Network.
    """
    program = program.run_decompositions(decompositions())
    module = program.graph_module
    rewrite(module)
    _check(program)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    weights = _weights_of(program)
    held = Held.of(module, weights, weights)
    extents = [expressions_of(node.meta.get("val")) for node in placeholders]
    dims = _dimensions(program, [place.symbol for place in places_of(placeholders) or []])

    def declare_at(*sizes):
        values, symbols = [], dict(zip(dims, sizes))
        for node, expressions in zip(placeholders, extents):
            value = node.meta.get("val")
            shape = tuple(at(e, symbols) for e in expressions)
            values.append(Like(shape, value.dtype, None) if isinstance(value, torch.Tensor) else value)
        return declare(module, values, held)

    declared = declare_over(list(dims.values()), declare_at) if dims else declare_at()
    names = [placeholders[i.position].name for i in declared.inputs] + [o.node.name for o in declared.outputs]
    net = heddle.Network([_usual(o) for o in declared.outputs], [i.tensor for i in declared.inputs], target=target, plan=plan,
                         passes=passes, names=names, **options)
    net._dims = list(dims.values())
    return net
