// Lesson 1: the first kernel.
//
// Heddle takes a *declaration*, which says what every element of a tensor is, and makes a fast
// kernel of it. Nobody says how: the order of the loops, the tiles, the vectors and the threads are
// chosen for the machine the program runs on. We declare relu(A x B + bias), build it, call it,
// and compare with the loops one would write in C. Then we make two mistakes on purpose.
//
// The parts between the "readme" marks are the example of docs/start/first-kernel.md; a test
// compares the two.

// readme: begin
#include <heddle/heddle.h>

#include <iostream>
// readme: end
#include <heddle/runtime/timer.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "common/expect.h"

// readme: begin

using namespace heddle;

int main() {
  const int M = 512, N = 512, K = 512;
  // What to compute. A placeholder is an input; an axis is an index; sum(.., k) runs over all k.
  Tensor A = placeholder({M, K}, f32, "A"), B = placeholder({K, N}, f32, "B");
  Tensor bias = placeholder({N}, f32, "bias");
  Axis k = reduce_axis(K, "k");
  Tensor C = compute({M, N}, [&](Axis i, Axis j) { return sum(A(i, k) * B(k, j), k); }, "C");
  Tensor D = compute({M, N}, [&](Axis i, Axis j) { return max(C(i, j) + bias(j), 0.f); }, "D");

  Schedule schedule = create_schedule({D});          // how: nothing to write, nothing measured
  Kernel kernel = build(schedule, {A, B, bias, D});  // machine code, in some tens of ms

  NDArray a = NDArray::random({M, K}, f32, 1), b = NDArray::random({K, N}, f32, 2);
  NDArray v = NDArray::random({N}, f32, 3), d = NDArray::zeros({M, N}, f32);
  kernel(a, b, v, d);  // arrays in the order given to build
  std::cout << "d[0, 1] = " << d.at<float>({0, 1}) << "\n" << schedule;
  // readme: end

  // ---- The schedule, as just printed -----------------------------------------------------------
  //
  // A schedule is a list of steps; each is one transformation of the loops of one stage, and the
  // first line says where the choice came from. The steps on D split its axes into tiles; those on
  // C compute one tile at a time inside of D, small enough to stay in registers while k runs from 0
  // to 511. bias and max are applied to the tile before it is written: C as a whole is never in
  // memory. Lesson 2 looks closer.

  // ---- Is it right? The same in C --------------------------------------------------------------
  NDArray expected = NDArray::zeros({M, N}, f32);
  auto loops_in_c = [&] {
    const float *pa = a.data<float>(), *pb = b.data<float>(), *pv = v.data<float>();
    float* pd = expected.data<float>();
    for (int i = 0; i < M; ++i) {
      for (int j = 0; j < N; ++j) pd[i * N + j] = 0;
      // k outside of j: B is then read in the order in which it lies in memory.
      for (int kk = 0; kk < K; ++kk) {
        for (int j = 0; j < N; ++j) pd[i * N + j] += pa[i * K + kk] * pb[kk * N + j];
      }
      for (int j = 0; j < N; ++j) pd[i * N + j] = std::max(pd[i * N + j] + pv[j], 0.0F);
    }
  };
  loops_in_c();
  // Sums of 512 products of numbers in [-1, 1); the order of additions differs.
  const Difference difference = compare(d, expected, 1e-5, 1e-4);
  HEDDLE_EXPECT(difference.ok(), describe(difference, d));

  // ---- Is it fast? -----------------------------------------------------------------------------
  //
  // naive_schedule takes the declaration as it is written, with the outer loops in parallel. Three
  // of each in turn, so that a busy moment of the machine hits all of them.
  Kernel naive = build(naive_schedule({D}), {A, B, bias, D});
  naive(a, b, v, d);
  HEDDLE_EXPECT(allclose(d, expected, 1e-5, 1e-4), "the naive schedule computes something else");
  std::vector<double> static_s, naive_s, c_s;
  for (int round = 0; round < 3; ++round) {
    static_s.push_back(measure([&] { kernel(a, b, v, d); }, 0.05).median_s);
    naive_s.push_back(measure([&] { naive(a, b, v, d); }, 0.05, 3).median_s);
    c_s.push_back(measure(loops_in_c, 0.05, 3).median_s);
  }
  auto report = [&](const char* what, std::vector<double> s) {
    std::sort(s.begin(), s.end());
    std::printf("  %-22s %8.2f ms  %7.1f GFLOP/s\n", what, s[1] * 1e3, 2e-9 * M * N * K / s[1]);
  };
  std::printf("\nrelu(A x B + bias), 512 x 512 x 512, on %d core(s)\n", Target::host().cores);
  report("create_schedule", static_s);
  report("naive_schedule", naive_s);
  report("loops in C, one core", c_s);

  // ---- Two mistakes ----------------------------------------------------------------------------
  //
  // Declarations are checked when they are made, not when they run. This one reads a column that B
  // does not have; the message shows the line of ours that says so, the index, and its range.
  std::printf("\na declaration that reads out of bounds:\n\n");
  bool refused = false;
  try {
    compute({M, N}, [&](Axis i, Axis j) { return A(i, j) - B(i, j + 1); }, "shifted");
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    refused = error.kind == ErrorKind::User && error.where.line == __LINE__ - 3;
  }
  HEDDLE_EXPECT(refused, "the out-of-bounds read was not found, or not on its line");

  // A call checks its arguments too: number, shape and type.
  std::printf("\na call with two arrays the wrong way round:\n\n");
  refused = false;
  try {
    kernel(a, v, b, d);
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    refused = error.kind == ErrorKind::Runtime;
  }
  HEDDLE_EXPECT(refused, "the swapped arguments were accepted");
  return 0;
}
