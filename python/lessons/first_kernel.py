"""Lesson 1 in Python: declare relu(A x B + bias), build it, call it, and compare with numpy."""

import numpy as np

import heddle as hd

M, N, K = 512, 512, 512
# What to compute. A placeholder is an input; an axis is an index; sum(.., k) runs over all k.
A, B, bias = hd.placeholder((M, K), name="A"), hd.placeholder((K, N), name="B"), hd.placeholder((N,), name="bias")
k = hd.reduce_axis(K)
C = hd.compute((M, N), lambda i, j: hd.sum(A[i, k] * B[k, j], k), name="C")
D = hd.compute((M, N), lambda i, j: hd.max(C[i, j] + bias[j], 0.0), name="D")

schedule = hd.create_schedule(D)                 # how: nothing to write, nothing measured
kernel = hd.build(schedule, [A, B, bias, D])     # machine code
print(schedule)

random = np.random.default_rng(1)
a, b, v = (random.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N), (N,)))
d = kernel(a, b, v)  # a new array; kernel(a, b, v, d) writes into one
assert np.allclose(d, np.maximum(a @ b + v, 0), rtol=1e-4, atol=1e-3)

try:
    hd.compute((M, N), lambda i, j: C[i + 1, j])
except hd.Error as error:
    print("a mistake:", error)
print("right")
