"""Products, of bits and of sparse matrices too, reductions, orders, searches and moves of elements."""
import numpy as np
import torch
import torch.nn.functional as F

import heddle as hd

from cases import Case, case, f32, ints

ops = hd.ops


@case("dense", "dense dense_pack dense_nopack dense_dynamic dense_large_batch dense_small_batch dense_tensorcore",
      "128 x 768 x 3072")
def dense():
    return Case([f32(128, 768), f32(3072, 768)], lambda x, w: ops.dense(x, w), lambda x, w: F.linear(x, w), constants=(1,))


@case("dense of int8", "dense_int8 dense_vnni", "128 x 768 x 3072, i8")
def dense_int8():
    x, w = ints(-127, 127, 128, 768, dtype=np.int8), ints(-127, 127, 768, 3072, dtype=np.int8)
    return Case([x, w], lambda x, w: ops.matmul(x, w, accumulate="i32", output="i32"), torch._int_mm, constants=(1,))


@case("matmul", "matmul matmul_default", "512 x 512 x 512")
def matmul():
    return Case([f32(512, 512), f32(512, 512, seed=1)], lambda a, b: ops.matmul(a, b), torch.matmul)


@case("batched matmul", "batch_matmul batch_matmul_tensorcore", "12 x 128 x 64 x 128")
def batch_matmul():
    return Case([f32(12, 128, 64), f32(12, 64, 128)], lambda a, b: ops.matmul(a, b), torch.matmul)


@case("batched matmul of int8", "batch_matmul_int8 batch_matmul_vnni", "12 x 128 x 64 x 128, u8 and i8")
def batch_matmul_int8():
    return Case([ints(0, 255, 12, 128, 64, dtype=np.uint8), ints(-127, 127, 12, 64, 128, dtype=np.int8)],
                lambda a, b: ops.matmul(a, b, accumulate="i32", output="i32"), lambda a, b: torch.matmul(a.float(), b.float()))


@case("einsum", "einsum", "bhqd,bhkd->bhqk, 1 x 12 x 128 x 64")
def einsum():
    return Case([f32(1, 12, 128, 64), f32(1, 12, 128, 64, seed=1)], lambda a, b: ops.einsum("bhqd,bhkd->bhqk", a, b),
                lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b))


def few_bits(bits, *shape):
    return ints(0, 2 ** bits, *shape, dtype=np.uint8)


@case("bit-serial dense", "bitserial_dense", "64 x 1024 x 256, 2 and 1 bits")
def bitserial_dense():
    return Case([few_bits(2, 64, 1024), few_bits(1, 256, 1024)], lambda x, w: ops.bitserial_matmul(x, w, bits_x=2, bits_w=1),
                lambda x, w: F.linear(x.float(), w.float()), constants=(1,))


@case("bit-serial conv2d NCHW", "bitserial_conv2d_nchw", "64 x 28 x 28, 64 of 3 x 3, 2 and 1 bits")
def bitserial_conv2d():
    return Case([few_bits(2, 1, 64, 28, 28), few_bits(1, 64, 64, 3, 3)],
                lambda x, w: ops.bitserial_conv2d(x, w, bits_x=2, bits_w=1, padding=[1]),
                lambda x, w: F.conv2d(x.float(), w.float(), padding=1), constants=(1,))


@case("bit-serial conv2d NHWC", "bitserial_conv2d_nhwc", "28 x 28 x 64, 64 of 3 x 3, 2 and 1 bits")
def bitserial_conv2d_nhwc():
    def theirs(x, w):
        y = F.conv2d(x.permute(0, 3, 1, 2).float(), w.permute(3, 2, 0, 1).float(), padding=1)
        return y.permute(0, 2, 3, 1)
    return Case([few_bits(2, 1, 28, 28, 64), few_bits(1, 3, 3, 64, 64)],
                lambda x, w: ops.bitserial_conv2d(x, w, bits_x=2, bits_w=1, padding=[1], layout="NHWC"), theirs, constants=(1,))


def packed(bits):
    words = np.packbits(bits.astype(bool), -1, bitorder="little")
    return words.view(np.uint32)


@case("binarize and pack", "binarize_pack bitpack", "256 x 4096")
def binarize_pack():
    return Case([f32(256, 4096)], lambda x: ops.pack_bits(ops.greater_equal(x, ops.full([1], 0.0))), numpy=lambda x: packed(x >= 0))


@case("dense of signs", "binary_dense", "64 x 1024 x 256")
def binary_dense():
    x, w = ints(0, 2, 64, 1024), ints(0, 2, 256, 1024)
    return Case([packed(x), packed(w)], lambda x, w: ops.binary_matmul(x, w, 1024),
                numpy=lambda *_: (2 * x - 1) @ (2 * w - 1).T, constants=(1,))


def csr(rows, columns, density, seed=0):
    """Data, columns, begins, and the most elements of a row, of a random matrix."""
    mask = np.random.default_rng(seed).random((rows, columns)) < density
    data = f32(rows, columns, seed=seed)[mask]
    begins = np.concatenate([[0], mask.sum(1).cumsum()]).astype(np.int32)
    return data, np.nonzero(mask)[1].astype(np.int32), begins, int(mask.sum(1).max())


def torch_csr(data, columns, begins, count):
    return torch.sparse_csr_tensor(begins, columns, data, (len(begins) - 1, count))


@case("sparse dense", "sparse_dense", "64 x 768 x 768, 10 % in CSR")
def sparse_dense():
    *matrix, longest = csr(768, 768, 0.1)
    return Case([f32(64, 768), *matrix], lambda x, d, c, b: ops.sparse_dense(x, d, c, b, longest),
                lambda x, d, c, b: (torch_csr(d, c, b, 768) @ x.T).T, constants=(1, 2, 3))


@case("sparse dense of blocks", "sparse_dense_padded", "64 x 768 x 768, 10 % in blocks of 16 x 1")
def sparse_blocks():
    _, columns, begins, longest = csr(48, 768, 0.1)
    data = f32(len(columns), 16, 1)

    def theirs(x, d, c, b):
        return (torch.sparse_bsr_tensor(b, c, d, (768, 768)).to_dense() @ x.T).T
    return Case([f32(64, 768), data, columns, begins], lambda x, d, c, b: ops.sparse_dense(x, d, c, b, longest), theirs,
                constants=(1, 2, 3))


@case("csrmm", "", "768 x 768 with 5 %, times 768 x 128")
def csrmm():
    *matrix, longest = csr(768, 768, 0.05)
    return Case([*matrix, f32(768, 128)], lambda d, c, b, x: ops.sparse_matmul(d, c, b, longest, x),
                lambda d, c, b, x: torch_csr(d, c, b, 768) @ x)


@case("sparse conv2d 3 x 3", "sparse_conv2d spconv2d_3x3_nchw spconv2d_3x3_nhwc", "28 x 28 x 64, 64 of 3 x 3, 10 % in CSR")
def sparse_conv2d():
    data, columns, begins, longest = csr(64, 576, 0.1)

    def ours(x, d, c, b):
        at = ops.pad(x, [0, 1, 1, 0], [0, 1, 1, 0])
        windows = hd.compute((28 * 28, 576), lambda p, q: at[0, p // 28 + q // 192, p % 28 + q // 64 % 3, q % 64])
        return ops.reshape(ops.sparse_dense(windows, d, c, b, longest), [1, 28, 28, 64])

    def theirs(x, d, c, b):
        w = torch_csr(d, c, b, 576).to_dense().reshape(64, 3, 3, 64)
        return F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), padding=1).permute(0, 2, 3, 1)
    return Case([f32(1, 28, 28, 64), data, columns, begins], ours, theirs, constants=(1, 2, 3))


@case("sparse transpose", "sparse_transpose", "256 x 256 with 5 %")
def sparse_transpose():
    *matrix, longest = csr(256, 256, 0.05)

    def expected(d, c, b):
        order = np.argsort(c, kind="stable")
        rows = np.repeat(np.arange(256), np.diff(b))
        return d[order], rows[order], np.searchsorted(c[order], np.arange(257))
    return Case(matrix, lambda d, c, b: ops.sparse_transpose(d, c, b, longest, 256, 256), numpy=expected)


@case("rows without values filled", "sparse_fill_empty_rows", "1024 values of 2048 rows")
def sparse_fill_empty_rows():
    rows, n, default = 2048, 1024, -1.0
    at = np.stack([np.sort(ints(0, rows, n)), ints(0, 64, n, seed=1)], 1)

    def filled(at, values):
        row, column = (ops.reshape(part, [n]) for part in ops.split(at, 2, 1))
        counts = ops.scatter_elements(ops.full([rows], 0, "i64"), row, ops.full([n], 1, "i64"), 0, "add")
        empty = ops.equal(counts, ops.full([rows], 0, "i64"))
        filled_before = ops.cumsum(ops.cast(empty, "i64"), 0, exclusive=True)
        begins = ops.cumsum(ops.maximum(counts, ops.full([rows], 1, "i64")), 0, exclusive=True)
        place = ops.add(ops.gather(filled_before, row), hd.compute([n], lambda i: i + 0))
        own = ops.where(empty, begins, ops.full([rows], n + rows, "i64"))     # others are no places
        numbers = hd.compute([rows], lambda r: r + 0)
        new_rows = ops.scatter_elements(ops.scatter_elements(ops.full([n + rows], 0, "i64"), place, row), own, numbers)
        columns = ops.scatter_elements(ops.full([n + rows], 0, "i64"), place, column)
        new = ops.scatter_elements(ops.full([n + rows], default), place, values)
        return [new_rows, columns, new, empty, ops.sum(ops.maximum(counts, ops.full([rows], 1, "i64")), [0])]

    def expected(at, values):
        lacking = np.setdiff1d(np.arange(rows), at[:, 0])
        all_rows = np.concatenate([at[:, 0], lacking])
        order = np.argsort(all_rows, kind="stable")
        columns = np.concatenate([at[:, 1], np.zeros_like(lacking)])
        new = np.concatenate([values, np.full(len(lacking), default, np.float32)])
        return all_rows[order], columns[order], new[order], np.isin(np.arange(rows), lacking)
    return Case([at, f32(n)], filled, numpy=expected,
                rows=lambda out: (*(o[:int(out[4])] for o in out[:3]), out[3]))


@case("LSTM", "lstm", "32 steps, batch 1, 128 to 256")
def lstm():
    cell = torch.nn.LSTM(128, 256)
    order = np.concatenate([np.arange(256) + 256 * g for g in (0, 3, 1, 2)])   # ONNX has i o f c, PyTorch i f g o
    w, r = (getattr(cell, n).detach().numpy()[order] for n in ("weight_ih_l0", "weight_hh_l0"))
    b = np.concatenate([getattr(cell, n).detach().numpy()[order] for n in ("bias_ih_l0", "bias_hh_l0")])
    return Case([f32(32, 1, 128), w, r, b], lambda x, w, r, b: ops.lstm(x, w, r, b)[0],
                lambda x, w, r, b: cell(x)[0], constants=(1, 2, 3))
