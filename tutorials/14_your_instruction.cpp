// Lesson 14: an instruction that Heddle does not know.
//
// Heddle uses the matrix units and dot products that it knows. Machines have more: every x86 CPU can
// add up the absolute differences of 16 bytes at once (psadbw), which is what a video encoder does
// when it looks for the place that a block of an image came from. Lesson 4 teaches Heddle a schedule;
// here we teach it an instruction, in one file. We say what it computes, as loops over operands, and
// which function of LLVM it is. A schedule then marks loops, and Heddle proves that they are the
// instruction before it uses it, or says why they are not.
//
//   build/bin/tutorial_14_your_instruction
#include <heddle/extend.h>
#include <heddle/heddle.h>
#include <heddle/runtime/timer.h>

#include <cstdio>
#include <string>
#include <vector>

#include "common/expect.h"

using namespace heddle;

namespace {

// ---- 1. The instruction ------------------------------------------------------------------------
//
//   for l in 0..2 { for j in 0..8 { d[l] = d[l] + |a[l, j] - b[l, j]| } }
//
// psadbw gives both sums, and they are added to d. The interpreter runs the loops; they are also what
// other CPUs run.
MachineInstruction sad() {
  MachineInstruction x;
  x.name = "sad";
  x.about = "two sums of eight absolute differences of bytes (psadbw)";
  x.loops = {"l", "j"};
  x.operands = {{"d", {0}}, {"a", {0, 1}}, {"b", {0, 1}}};
  x.value = [](const std::vector<Expr>& v) {
    return v[0] + abs(cast(i64, v[1]) - cast(i64, v[2]));
  };
  x.forms = {{{i64, u8, u8}, {{2}, {8}}, {"llvm.x86.sse2.psad.bw", {1, 2}, /*adds=*/true}}};
  x.legal = [](const Target& t, const InstructionForm&) { return t.is_x86(); };
  return x;
}
HEDDLE_REGISTER_INSTRUCTION(sad());

// ---- 2. A declaration --------------------------------------------------------------------------
//
// How far a block of 16 x 16 bytes is from each of many candidates. A row of 16 bytes is two halves
// of 8, so that each half has a sum of its own; the memory is the same.
constexpr int kCandidates = 4096;

struct BlockSearch {
  Tensor candidates = placeholder({kCandidates, 16, 2, 8}, u8, "candidates"),
         block = placeholder({16, 2, 8}, u8, "block");
  Axis row = reduce_axis(16, "row"), j = reduce_axis(8, "j");
  Tensor halves = compute(
      {kCandidates, 2},
      [this](Axis i, Axis l) {
        return sum(abs(cast(i64, candidates(i, row, l, j)) - cast(i64, block(row, l, j))),
                   {row, j});
      },
      "halves");
  Tensor distance =
      compute({kCandidates}, [this](Axis i) { return halves(i, 0) + halves(i, 1); }, "distance");
  std::vector<Tensor> args() const { return {candidates, block, distance}; }
};

// ---- 3. A schedule that marks the loops --------------------------------------------------------
Schedule with_sad(const BlockSearch& p, bool wrong = false) {
  Schedule s({p.distance});
  StageRef halves = s[p.halves];
  auto [i, l] = halves.axes<2>();
  const Loop row = halves.reduce_axis(0), j = halves.reduce_axis(1);
  if (wrong) {
    halves.reorder({i, j, l, row});  // the sums go over rows in place of bytes of a row
  } else {
    halves.reorder({i, row, l, j});
  }
  halves.tensorize(l, "sad");
  return s;
}

double microseconds(const Kernel& kernel, const std::vector<NDArray>& arrays) {
  return 1e6 * measure([&] { kernel.call(arrays); }, 0.05).min_s;
}

}  // namespace

int main() {
  const BlockSearch p;
  std::vector<NDArray> arrays{NDArray::random({kCandidates, 16, 2, 8}, u8, 1),
                              NDArray::random({16, 2, 8}, u8, 2),
                              NDArray::zeros({kCandidates}, i64)};
  const Kernel usual = build(create_schedule({p.distance}), p.args()),
               ours = build(with_sad(p), p.args());
  usual.call(arrays);
  const NDArray want = arrays[2].copy();
  arrays[2].set(0, -1);
  ours.call(arrays);
  HEDDLE_EXPECT(compare(arrays[2], want, 0, 0).ok(), "the instruction gives other distances");

  std::printf(
      "%d candidates, microseconds\n  the static choice  %8.1f\n  with the instruction %6.1f\n",
      kCandidates, microseconds(usual, arrays), microseconds(ours, arrays));
  const bool used = ours.source("llvm").find("psad.bw") != std::string::npos;
  std::printf("psadbw is %sin the code\n", used ? "" : "not ");
  HEDDLE_EXPECT(used == Target::host().is_x86(), "an x86 CPU has psadbw, and no other one");

  // 4. Loops that are something else are refused, with the reason.
  try {
    build(with_sad(p, /*wrong=*/true), p.args());
    HEDDLE_EXPECT(false, "wrong loops were taken for the instruction");
  } catch (const Error& e) {
    std::printf("\nThe other order of loops:\n%s\n", e.what());
    HEDDLE_EXPECT(std::string(e.what()).find("has 16 iterations, and not 8") != std::string::npos,
                  "the message lacks the reason");
  }
  return 0;
}
