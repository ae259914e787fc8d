"""Heddle compiles tensor programs to fast kernels for CPUs and NVIDIA GPUs.

    import heddle as hd

    net = hd.load("digits.onnx", dims={"batch": 1})    # a model: call it with arrays of numpy, torch, jax or cupy
    logits = net(image)

    A, B = hd.placeholder((M, K)), hd.placeholder((K, N))                  # a declaration
    k = hd.reduce_axis(K)
    C = hd.compute((M, N), lambda i, j: hd.sum(A[i, k] * B[k, j], k))
    f = hd.build(hd.create_schedule(C), [A, B, C])
    c = f(a, b)
"""

from . import _errors as _errors  # the extension module looks it up
from ._errors import Error
from . import _heddle
from . import _pictures
from ._heddle import (
    Axis, Dim, Expr, FamilyKernel, FamilyResult, Kernel, Knob, Loop, MultiKernel, NDArray, Plan, Reducer, Schedule, Stage,
    Target, TaskResult, Template, Tensor, TuneReport,
    abs, acos, all, any, asin, atan, atan2, build, build_multi, cast, ceil, choose_family, compute, compute_all, constant,
    constant_placeholder, cos, cosh, create_schedule, describe, dim, emulate, erf, exp, exp2, expm1, export_kernel,
    floor, fmax, fmin, generalize, generic_family, gradient, highest_value, isinf, isnan, load_kernel, log, log10, log1p, log2, logical_and, logical_or,
    lowest_value, make_template, max, min, naive_schedule, num_threads, placeholder, placeholders, pow, prod, prod_in, reduce_axis, reduce_fmax,
    reduce_fmin, reducer, round, rsqrt, select, set_num_threads, sin, sinh, sqrt, sum, sum_in, tan, tanh, trunc,
    update,
)
from . import ops
from ._exported import ExportedLibrary, open
from ._generate import LanguageModel
from ._network import Network, load
from ._profile import Profile, profile
from ._quantize import QuantizeReport, quantize
from ._tune import TuneResult, tune

Schedule.plot, TuneReport.plot = _pictures.plot_schedule, _pictures.plot_tuning


def from_torch(program, **options):
    """A network of a program of torch.export; heddle.torch.from_torch says more."""
    from .torch import from_torch as make

    return make(program, **options)


__version__ = _heddle.version  # "0.1.0+<commit>"

f64, f32, f16, bf16, f8e4m3, f8e5m2 = "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"
i8, i16, i32, i64, u8, u16, u32, u64, boolean = "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"
