#include "ops/ops_testing.h"

namespace heddle {
namespace {

TEST(Matmul, OfEveryTranspositionAndType) {
  for (DataType t : {f32, f64, f16, bf16, i32}) {
    for (int mode = 0; mode < 4; ++mode) {
      const bool ta = mode & 1, tb = mode & 2;
      SCOPED_TRACE(to_string(t) + " " + std::to_string(mode));
      const Input a = input(ta ? Dims{7, 3} : Dims{3, 7}, t, 1);
      const Input b = input(tb ? Dims{5, 7} : Dims{7, 5}, t, 2);
      const Tensor y = ops::matmul(a, b, ta, tb);
      EXPECT_EQ(y.dtype(), t);
      expect_elements(y, {a, b}, [&](const Dims& i) {
        double s = 0;
        for (int k = 0; k < 7; ++k)
          s += (ta ? a(k, i[0]) : a(i[0], k)) * (tb ? b(i[1], k) : b(k, i[1]));
        return s;
      });
    }
  }
}

TEST(Matmul, OfBytesAnswersInI32) {
  const Input a = input({3, 300}, u8, 1), b = input({300, 2}, i8, 2, -100, 100);
  const Tensor y = ops::matmul(a, b);
  EXPECT_EQ(y.dtype(), i32);
  expect_elements(y, {a, b}, [&](const Dims& i) {
    double s = 0;
    for (int k = 0; k < 300; ++k) s += a(i[0], k) * b(k, i[1]);
    return s;
  });
}

// Products of few rows unpack the bits themselves, others read what is computed once.
TEST(Matmul, OfWeightsOfFewBits) {
  constexpr int64_t kColumns = 24, kDepth = 256, kBlock = 32;
  const Input scales{constant_placeholder({kColumns, kDepth / kBlock}, f32, "scales"),
                     NDArray::random({kColumns, kDepth / kBlock}, f32, 3, 0.5, 1)};
  NDArray random = NDArray::zeros({kColumns, kDepth / 2}, u8);
  for (int64_t i = 0; i < random.size(); ++i) random.set(i, static_cast<double>(i * 37 % 251));
  const Input bits{constant_placeholder({kColumns, kDepth / 2}, u8, "bits"), random};
  for (const DataType t : {f32, bf16, f16}) {
    const Tensor w = compute(
        {kColumns, kDepth},
        [&](Axis n, Axis k) {
          const Expr byte = cast(i32, bits.tensor(n, floordiv(k, 2)));
          const Expr four = bitwise_and(shift_right(byte, cast(i32, floormod(k, 2)) * 4), 15);
          return cast(t, cast(f32, four - 8) * scales.tensor(n, floordiv(k, kBlock)));
        },
        "unpacked");
    const NDArray weights = run_interpreted(w, {bits, scales}).result;
    for (const int64_t rows : {1, 2, 4, 5}) {
      SCOPED_TRACE(to_string(t) + " " + std::to_string(rows));
      const Input x = input({rows, kDepth}, t, 4);
      expect_elements(
          ops::matmul(x, w, false, true), {x, bits, scales},
          [&](const Dims& i) {
            double sum = 0;
            for (int64_t k = 0; k < kDepth; ++k) sum += x(i[0], k) * weights.get(i[1] * kDepth + k);
            return sum;
          },
          t == f32 ? 1e-4 : 1e-2);
    }
  }
}

TEST(Matmul, OfHalvesAddsUpInF32) {
  // 4096 ones: in f16 the sum would stop at 2048.
  const Input a = input_of(NDArray::full({1, 4097}, f16, 1));
  const Input b = input_of(NDArray::full({4097, 1}, f16, 1), "b");
  expect_elements(ops::matmul(a, b), {a, b}, [](const Dims&) { return 4096.0; }, 0);
  const Tensor wide = ops::matmul(a, b, false, false, {.output = f32});
  EXPECT_EQ(wide.dtype(), f32);
  EXPECT_TRUE(wide.op()->is_reduction());
  expect_elements(wide, {a, b}, [](const Dims&) { return 4097.0; }, 0);
  const Tensor narrow = ops::matmul(a, b, false, false, {.accumulate = f16});
  // One after the other; schedules may add up in parts, and lose less.
  expect_result(narrow, run_interpreted(narrow, {a, b}), [](const Dims&) { return 2048.0; }, 0);
}

TEST(Matmul, BroadcastsBatches) {
  const Input a = input({2, 1, 3, 4}, f32, 1), b = input({5, 4, 2}, f32, 2);
  const Tensor y = ops::matmul(a, b);
  EXPECT_EQ(y.extents(), (Dims{2, 5, 3, 2}));
  expect_elements(y, {a, b}, [&](const Dims& i) {
    double s = 0;
    for (int k = 0; k < 4; ++k) s += a(i[0], 0, i[2], k) * b(i[1], k, i[3]);
    return s;
  });
}

TEST(Matmul, OfVectors) {
  const Input m = input({2, 3, 4}, f32, 1), v = input({4}, f32, 2), u = input({3}, f32, 3);
  expect_elements(ops::matmul(m, v), {m, v}, [&](const Dims& i) {
    double s = 0;
    for (int k = 0; k < 4; ++k) s += m(i[0], i[1], k) * v(k);
    return s;
  });
  const Tensor left = ops::matmul(u, m);
  EXPECT_EQ(left.extents(), (Dims{2, 4}));
  expect_elements(left, {m, u}, [&](const Dims& i) {
    double s = 0;
    for (int k = 0; k < 3; ++k) s += u(k) * m(i[0], k, i[1]);
    return s;
  });
  double squares = 0;
  for (int k = 0; k < 4; ++k) squares += v(k) * v(k);
  expect_elements(ops::dot(v, v), {v}, [&](const Dims&) { return squares; });
  expect_elements(ops::outer(u, v), {u, v}, [&](const Dims& i) { return u(i[0]) * v(i[1]); });
  const Input a = input({5, 4}, f32, 4);
  expect_elements(ops::matvec(a, v), {a, v}, [&](const Dims& i) {
    double s = 0;
    for (int k = 0; k < 4; ++k) s += a(i[0], k) * v(k);
    return s;
  });
}

TEST(BatchMatmul, TransposesItsOperands) {
  const Input a = input({3, 4, 2}, f32, 1), b = input({3, 5, 4}, f32, 2);
  expect_elements(ops::batch_matmul(a, b, true, true), {a, b}, [&](const Dims& i) {
    double s = 0;
    for (int k = 0; k < 4; ++k) s += a(i[0], k, i[1]) * b(i[0], i[2], k);
    return s;
  });
}

TEST(Dense, AddsItsBiasInAStageOfItsOwn) {
  for (DataType t : {f32, f16}) {
    const Input x = input({2, 3, 6}, t, 1), w = input({4, 6}, t, 2), b = input({4}, t, 3);
    const Tensor y = ops::dense(x, w, b);
    EXPECT_FALSE(y.op()->is_reduction());
    EXPECT_TRUE(y.op()->inputs()[0].op()->is_reduction());
    expect_elements(y, {x, w, b}, [&](const Dims& i) {
      double s = b(i[2]);
      for (int k = 0; k < 6; ++k) s += x(i[0], i[1], k) * w(i[2], k);
      return s;
    });
  }
}

TEST(Einsum, ContractsByLetters) {
  const Input a = input({2, 3, 4}, f32, 1), b = input({2, 5, 4}, f32, 2);
  const auto scores = [&](int64_t n, int64_t i, int64_t j) {
    double s = 0;
    for (int k = 0; k < 4; ++k) s += a(n, i, k) * b(n, j, k);
    return s;
  };
  expect_elements(ops::einsum("bik, bjk -> bij", a, b), {a, b},
                  [&](const Dims& i) { return scores(i[0], i[1], i[2]); });
  expect_elements(ops::einsum("bik,bjk->jb", a, b), {a, b}, [&](const Dims& i) {
    double s = 0;
    for (int m = 0; m < 3; ++m) s += scores(i[1], m, i[0]);
    return s;
  });
  // Without a result: the letters that occur once, i and j.
  expect_elements(ops::einsum("bik,bjk", a, b), {a, b},
                  [&](const Dims& i) { return scores(0, i[0], i[1]) + scores(1, i[0], i[1]); });
}

TEST(Einsum, OfOneOperand) {
  const Input a = input({4, 4}, f32, 1), c = input({2, 3, 4}, f32, 2);
  expect_elements(ops::einsum("ii->i", a), {a}, [&](const Dims& i) { return a(i[0], i[0]); });
  double trace = 0;
  for (int i = 0; i < 4; ++i) trace += a(i, i);
  expect_elements(ops::einsum("ii", a), {a}, [&](const Dims&) { return trace; });
  expect_elements(ops::einsum("ijk->kji", c), {c},
                  [&](const Dims& i) { return c(i[2], i[1], i[0]); });
}

TEST(Einsum, AnEllipsisStandsForDimensionsThatBroadcast) {
  const Input q = input({2, 3, 4, 2, 5}, f32, 1), k = input({2, 3, 6, 2, 5}, f32, 2);
  const auto score = [&](const Dims& i) {
    double s = 0;
    for (int d = 0; d < 5; ++d) s += q(i[0], i[1], i[3], i[2], d) * k(i[0], i[1], i[4], i[2], d);
    return s;
  };
  expect_elements(ops::einsum("...qhd,...khd->...hqk", q, k), {q, k}, score);
  const Input a = input({3, 1, 2, 4}, f32, 3), b = input({5, 4, 6}, f32, 4);
  const auto product = [&](const Dims& i) {
    double s = 0;
    for (int d = 0; d < 4; ++d) s += a(i[0], 0, i[2], d) * b(i[1], d, i[3]);
    return s;
  };
  expect_elements(ops::einsum("...ij, ...jk -> ...ik", a, b), {a, b}, product);
  expect_elements(ops::einsum("...ij,...jk", a, b), {a, b}, product);
  // Behind a letter, and for no dimension at all.
  const Input c = input({4, 3, 2}, f32, 5), d = input({4}, f32, 6);
  expect_elements(ops::einsum("i...,i...->...", c, d), {c, d}, [&](const Dims& i) {
    double s = 0;
    for (int n = 0; n < 4; ++n) s += c(n, i[0], i[1]) * d(n);
    return s;
  });
}

TEST(LinalgErrors, NameOperatorArgumentAndShapes) {
  const Input a = input({2, 3}), b = input({4, 5}), h = input({3, 2}, f16), t = input({3, 2, 4});
  EXPECT_EQ(error_of([&] { ops::matmul(a, b); }),
            "matmul: the inner extents of (2, 3) x (4, 5) are 3 and 4 | they must be equal; see "
            "transpose_a and transpose_b");
  EXPECT_EQ(error_of([&] { ops::matmul(a, h); }),
            "matmul: 'x1' is f32 (2, 3) but 'x1' is f16 (3, 2) | convert one of them with "
            "ops::cast");
  EXPECT_EQ(error_of([&] { ops::batch_matmul(a, b); }),
            "batch_matmul: argument 'a' has shape (2, 3), and needs 3 dimensions | ");
  EXPECT_EQ(error_of([&] { ops::matmul(t, input({5, 4, 2})); }),
            "matmul: the leading dimensions of (3, 2, 4) x (5, 4, 2) do not broadcast | from the "
            "back, extents must be equal or 1");
  EXPECT_EQ(error_of([&] { ops::dense(a, b); }),
            "dense: 'x' f32 (2, 3) has 3 features but 'weight' f32 (4, 5) takes 5 | the weight is "
            "(outputs, inputs)");
  EXPECT_EQ(error_of([&] { ops::dense(a, input({4, 3}), input({5})); }),
            "dense: 'bias' has shape (5), and needs (4) | ");
  EXPECT_EQ(error_of([&] { ops::einsum("ij,jk->ik", a, b); }),
            "einsum: index 'j' of 'ij,jk->ik' has extents 3 and 4 | ");
  EXPECT_EQ(error_of([&] { ops::einsum("i..", a); }),
            "einsum: 'i..' has '.' where a letter is expected | write it as in \"ij,jk->ik\"");
  EXPECT_EQ(error_of([&] { ops::einsum("i...->i", a); }),
            "einsum: 'i...->i' has '...' in its operands only | write it as in \"ij,jk->ik\"");
  EXPECT_EQ(error_of([&] { ops::einsum("...i...->...i", a); }),
            "einsum: '...i...->...i' has '...' twice in one operand | write it as in "
            "\"ij,jk->ik\"");
  EXPECT_EQ(error_of([&] { ops::einsum("...i,...j->...ij", a, b); }),
            "einsum: a dimension of '...' of '...i,...j->...ij' has extents 2 and 4 | ");
  EXPECT_EQ(error_of([&] { ops::einsum("ij->ijk", a); }),
            "einsum: 'ij->ijk' has 'k' in its result only | write it as in \"ij,jk->ik\"");
  EXPECT_EQ(error_of([&] { ops::einsum("ij,jk,kl->il", a, b); }),
            "einsum: 'ij,jk,kl->il' has 3 operands but 2 are given | contract more than two "
            "operands two at a time");
  EXPECT_EQ(error_of([&] { ops::matmul(a, a, true, false, {.accumulate = i32}); }),
            "matmul: cannot add up products of f32 in i32 | ");
}

double determinant_of(std::vector<std::vector<double>> m) {
  if (m.size() == 1) return m[0][0];
  double sum = 0;
  for (size_t k = 0; k < m.size(); ++k) {
    std::vector<std::vector<double>> rest;
    for (size_t r = 1; r < m.size(); ++r) {
      rest.push_back(m[r]);
      rest.back().erase(rest.back().begin() + static_cast<std::ptrdiff_t>(k));
    }
    sum += (k % 2 ? -1 : 1) * m[0][k] * determinant_of(rest);
  }
  return sum;
}

TEST(Linalg, DeterminantsAgreeWithTheirDefinition) {
  const Input x = input({2, 3, 5, 5});
  x.array.set(0, 0);                                       // a pivot that is not on the diagonal
  for (int64_t j = 0; j < 5; ++j) x.array.set(25 + j, 0);  // a singular matrix
  expect_elements(
      ops::determinant(x), {x},
      [&](const Dims& i) {
        std::vector<std::vector<double>> m(5, std::vector<double>(5));
        for (size_t r = 0; r < 5; ++r)
          for (size_t c = 0; c < 5; ++c) m[r][c] = x(i[0], i[1], r, c);
        return determinant_of(m);
      },
      1e-4);
  EXPECT_EQ(error_of([&] { ops::determinant(input({2, 3})); }),
            "determinant: x (2, 3) does not have square matrices | of at most 256 rows");
}

}  // namespace
}  // namespace heddle
