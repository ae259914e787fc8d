"""Reductions, softmax, elements, orders, searches, scatters, random numbers, transforms."""
import numpy as np
import torch
import torch.nn.functional as F

import heddle as hd

from cases import Case, case, f32, ints

ops = hd.ops


@case("reductions", "reduce reduce_impl", "1024 x 1024, sums of rows")
def reduce():
    return Case([f32(1024, 1024)], lambda x: ops.sum(x, [1]), lambda x: x.sum(1))


@case("argmax", "", "1024 x 1024")
def argmax():
    return Case([f32(1024, 1024)], lambda x: ops.argmax(x, 1), lambda x: x.argmax(1))


@case("softmax", "softmax fast_softmax", "1024 x 1024")
def softmax():
    return Case([f32(1024, 1024)], lambda x: ops.softmax(x), lambda x: x.softmax(-1))


@case("log-softmax", "", "1024 x 1024")
def log_softmax():
    return Case([f32(1024, 1024)], lambda x: ops.log_softmax(x), lambda x: x.log_softmax(-1))


@case("elements", "injective injective_from_existing", "1024 x 1024, gelu")
def injective():
    return Case([f32(1024, 1024)], lambda x: ops.gelu(x), lambda x: F.gelu(x))


@case("transpose", "transpose transpose_from_existing", "1024 x 1024")
def transpose():
    return Case([f32(1024, 1024)], lambda x: ops.transpose(x), lambda x: x.T.contiguous())


@case("concatenate", "concatenate concatenate_cpu", "three of 64 x 56 x 56")
def concatenate():
    return Case([f32(1, 64, 56, 56, seed=s) for s in range(3)], lambda *x: ops.concat(list(x), 1), lambda *x: torch.cat(x, 1))


@case("layer normalisation", "", "512 x 768")
def layer_norm():
    return Case([f32(512, 768), f32(768), f32(768, seed=1)], lambda x, s, b: ops.layer_norm(x, s, b),
                lambda x, s, b: F.layer_norm(x, (768,), s, b), constants=(1, 2))


@case("group normalisation", "", "64 x 56 x 56, 8 groups")
def group_norm():
    return Case([f32(1, 64, 56, 56), f32(64), f32(64, seed=1)], lambda x, s, b: ops.group_norm(x, 8, s, b),
                lambda x, s, b: F.group_norm(x, 8, s, b), constants=(1, 2))


@case("scan", "scan", "256 x 4096, running sums")
def scan():
    return Case([f32(256, 4096)], lambda x: ops.cumsum(x, 1), lambda x: x.cumsum(1), tolerance=1e-3)


@case("sort", "sort argsort", "64 x 1024")
def sort():
    return Case([f32(64, 1024)], lambda x: ops.sort(x), lambda x: tuple(x.sort(stable=True)))


@case("sort of one long row", "", "16384")
def sort_long():
    return Case([f32(16384)], lambda x: ops.sort(x), lambda x: tuple(x.sort(stable=True)))


@case("top-k", "topk", "64 x 4096, k 10")
def topk():
    return Case([f32(64, 4096)], lambda x: ops.top_k(x, 10), lambda x: tuple(x.topk(10)))


@case("positions that are not 0", "argwhere", "8192")
def argwhere():
    return Case([ints(0, 2, 8192, dtype=np.int32)], lambda x: ops.nonzero(x), lambda x: x.nonzero().T,
                rows=lambda out: out[0][:, :int(out[1])])


@case("different elements", "unique", "4096")
def unique():
    return Case([ints(0, 1000, 4096)], lambda x: [ops.unique(x)[i] for i in (0, 2, 4)], lambda x: x.unique(return_inverse=True),
                rows=lambda out: (out[0][:int(out[2])], out[1]))


@case("scatter", "scatter", "4096 x 64, 1024 rows")
def scatter():
    at = np.random.default_rng(0).permutation(4096)[:1024].astype(np.int64)
    return Case([f32(4096, 64), np.repeat(at[:, None], 64, 1), f32(1024, 64)],
                lambda x, i, u: ops.scatter_elements(x, i, u, 0), lambda x, i, u: x.scatter(0, i, u))


@case("scatter with sums", "scatter_add scatter_via_sort", "4096 x 64, 1024 rows")
def scatter_add():
    at = ints(0, 4096, 1024)
    return Case([f32(4096, 64), np.repeat(at[:, None], 64, 1), f32(1024, 64)],
                lambda x, i, u: ops.scatter_elements(x, i, u, 0, "add"), lambda x, i, u: x.scatter_add(0, i, u))


@case("gather", "", "32768 x 256, 512 rows")
def gather():
    return Case([f32(32768, 256), ints(0, 32768, 512)], lambda x, i: ops.gather(x, i), lambda x, i: x[i])


@case("searchsorted", "", "65536 values among 4096")
def searchsorted():
    return Case([np.sort(f32(4096)), f32(65536)], lambda s, v: ops.searchsorted(s, v), torch.searchsorted)


@case("random numbers", "", "1024 x 1024, uniform")
def random():
    def checked(x):
        return torch.rand(1024, 1024)
    return Case([f32(1)], lambda x: ops.random_uniform([1024, 1024], 7), checked,
                rows=lambda out: (np.float32(np.abs(out.mean() - 0.5) < 1e-2), np.float32(np.abs(out.std() - 12 ** -0.5) < 1e-2)))


@case("DFT", "", "16 x 1024 complex numbers")
def dft():
    return Case([f32(16, 1024, 2)], lambda x: ops.dft(x, 1),
                lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))), tolerance=1e-3)


@case("STFT", "", "16384, windows of 512 every 128")
def stft():
    window = np.hanning(512).astype(np.float32)

    def theirs(x, w):
        y = torch.stft(x[..., 0], 512, 128, window=w, center=False, return_complex=True)
        return torch.view_as_real(y).transpose(1, 2)
    return Case([f32(1, 16384, 1), window], lambda x, w: ops.stft(x, 128, w, 512), theirs, constants=(1,), tolerance=1e-3)


@case("blocks of pixels", "", "64 x 112 x 112, space to depth by 2")
def space_to_depth():
    def theirs(x):
        return x.reshape(1, 64, 56, 2, 56, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 256, 56, 56)
    return Case([f32(1, 64, 112, 112)], lambda x: ops.space_to_depth(x, 2), theirs)
