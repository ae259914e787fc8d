// Lesson 12: kernels for sizes that only the caller knows.
//
// A server gets requests of one row, of seven, of three hundred. The shapes of lesson 1 are
// constants, so each would need a kernel of its own. A dimension has a range instead of a number:
// what is declared over it is one declaration for all its sizes, and every kernel that is made of
// it is right at each of them. No size is as fast as it can be with the tiles of another, though.
// So we make a few kernels, measure where each is good, and put a tree on the size before them.
//
//   build/bin/tutorial_12_any_size
#include <heddle/family/choose.h>
#include <heddle/heddle.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/expect.h"

using namespace heddle;

namespace {

constexpr int K = 96, N = 64;

// relu(A x B + bias), as in lesson 1, over any number of rows in the range of `rows`.
struct Dense {
  Tensor A, B = constant_placeholder({K, N}, f32, "B"), bias = placeholder({N}, f32, "bias");
  Tensor D;
  explicit Dense(const Dim& rows) : A(placeholder({rows, K}, f32, "A")) {
    Axis k = reduce_axis(K, "k");
    Tensor C = compute({rows, N}, [&](Axis i, Axis j) { return sum(A(i, k) * B(k, j), k); }, "C");
    D = compute({rows, N}, [&](Axis i, Axis j) { return max(C(i, j) + bias(j), 0.f); }, "D");
  }
  std::vector<Tensor> args() const { return {A, B, bias, D}; }
};

struct Arrays {
  NDArray a, b = NDArray::random({K, N}, f32, 2), bias = NDArray::random({N}, f32, 3), d;
  explicit Arrays(int64_t rows)
      : a(NDArray::random({rows, K}, f32, 1)), d(NDArray::zeros({rows, N}, f32)) {}

  bool right() const {
    NDArray want = NDArray::zeros({a.extent(0), N}, f32);
    const float *pa = a.data<float>(), *pb = b.data<float>(), *pv = bias.data<float>();
    float* pd = want.data<float>();
    for (int64_t i = 0; i < a.extent(0); ++i) {
      for (int k = 0; k < K; ++k) {
        for (int j = 0; j < N; ++j) pd[i * N + j] += pa[i * K + k] * pb[k * N + j];
      }
      for (int j = 0; j < N; ++j) pd[i * N + j] = std::max(pd[i * N + j] + pv[j], 0.0F);
    }
    return compare(d, want, 1e-5, 1e-4).ok();
  }
};

int run() {
  // ---- One kernel for a range ------------------------------------------------------------------
  //
  // A shape may have a Dim where it had a number. The kernel takes the size from the shapes of its
  // arrays at each call. Its loops are full tiles of constant size, and one shorter tail.
  const Dim n = dim("n", 1, 300);
  const Dense dense(n);
  const Kernel one = build(create_schedule({dense.D}), dense.args());
  for (const int64_t rows : {1, 7, 64, 300}) {
    const Arrays x(rows);
    one(x.a, x.b, x.bias, x.d);
    HEDDLE_EXPECT(x.right(), "one kernel is wrong at " + std::to_string(rows) + " rows");
  }
  std::printf("one kernel, right at 1, 7, 64 and 300 rows\n");

  // Beyond its range it does not run.
  const Arrays large(301);
  std::string error;
  try {
    one(large.a, large.b, large.bias, large.d);
  } catch (const Error& e) {
    error = e.message;
  }
  std::printf("at 301 rows: %s\n", error.c_str());
  HEDDLE_EXPECT(error.find("n") != std::string::npos, "a size out of range was not refused");

  // ---- Several kernels -------------------------------------------------------------------------
  //
  // Rules choose tiles at some sizes. Each choice becomes a kernel for all sizes, and all of them
  // are raced, at these sizes and between them. The few that together lose least are kept. With
  // measurements from production, `histogram` says which sizes matter. tune_family
  // (heddle/search/tune_family.h) tunes at these sizes in place of the rules.
  FamilyOptions options;
  options.max_kernels = 3;
  options.points = 5;
  options.race_seconds = 0.5;
  const FamilyResult family = choose_family({n}, dense.args(), options);
  std::printf("\n%s\n", to_text(family).c_str());

  // The family is called as a kernel is. The tree costs some nanoseconds.
  for (const int64_t rows : {1, 13, 300}) {
    const Arrays x(rows);
    family.kernel(x.a, x.b, x.bias, x.d);
    HEDDLE_EXPECT(x.right(), "the family is wrong at " + std::to_string(rows) + " rows");
    const std::vector<NDArray> arrays{x.a, x.b, x.bias, x.d};
    std::printf("%3d rows run the kernel chosen at %s\n", static_cast<int>(rows),
                family.kernel.picked(arrays).c_str());
  }
  HEDDLE_EXPECT(family.variants.size() <= 3, "more kernels than were asked for");

  // ---- A promise -------------------------------------------------------------------------------
  //
  // Where all sizes are multiples of a tile, the kernel needs no tail.
  const Dim eights = dim("n", 8, 304).multiple_of(8);
  const Dense padded(eights);
  const Kernel whole = build(create_schedule({padded.D}), padded.args());
  const Arrays x(48);
  whole(x.a, x.b, x.bias, x.d);
  HEDDLE_EXPECT(x.right(), "the kernel for multiples of 8 is wrong at 48 rows");
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
