// Schedules that lowering refuses.
#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

struct Three {
  Tensor A, B, C, D;
  Three() {
    A = placeholder({8}, f32, "A");
    B = compute({8}, [&](Axis i) { return A(i) + 1.f; }, "B");
    C = compute({8}, [&](Axis i) { return B(i) * 2.f; }, "C");
    D = compute({8}, [&](Axis i) { return B(i) - C(i); }, "D");
  }
};

TEST(LowerErrors, EveryArgumentMustBeThereOnce) {
  Three p;
  Schedule s({p.D});
  EXPECT_EQ(error_of([&] { lower(s, {p.D}); }), R"('A' is missing from the arguments
  help: list every input and every output of the program once)");
  EXPECT_EQ(error_of([&] { lower(s, {p.A}); }), R"('D' is missing from the arguments
  help: list every input and every output of the program once)");
  EXPECT_EQ(error_of([&] { lower(s, {p.A, p.D, p.A}); }),
            "'A' is listed twice among the arguments");
  EXPECT_EQ(error_of([&] { lower(s, {p.A, p.D, p.D}); }),
            "'D' is listed twice among the arguments");
}

TEST(LowerErrors, OnlyInputsAndOutputsAreArguments) {
  Three p;
  Schedule s({p.D});
  EXPECT_EQ(error_of([&] { lower(s, {p.A, p.B, p.D}); }),
            "argument 'B' is neither an input nor an output of the program\n"
            "  help: pass the placeholders that the outputs read, and the outputs");
  EXPECT_EQ(error_of([&] { lower(s, {p.A, placeholder({8}, f32, "Z"), p.D}); }),
            "argument 'Z' is neither an input nor an output of the program\n"
            "  help: pass the placeholders that the outputs read, and the outputs");
  EXPECT_EQ(error_of([&] { lower(s, {p.A, Tensor(), p.D}); }),
            "a Tensor that was never assigned is used");
}

// 9 = 5 + 4: the length of a part depends on which part it is. Without the check, code generation
// would meet a variable that is not in scope.
TEST(LowerErrors, TheLoopInAPartMustBeInsideTheLoopOverParts) {
  Tensor x = placeholder({9}, f32, "X");
  Axis r = reduce_axis(9, "r");
  Tensor total = compute({}, [&](const std::vector<Axis>&) { return sum(x(r), r); }, "sum");
  Schedule s({total});
  StageRef parts = s[total].rfactor(s[total].reduce_axis(0), 5, false);
  lower(s, {x, total});
  parts.reorder({parts.reduce_axis(0), parts.axis(0)});
  EXPECT_EQ(
      error_of([&] { lower(s, {x, total}); }),
      "loop 'r.i' of stage 'sum.rf' runs to a length that depends on 'r', which is not outside "
      "of it\n  help: reorder 'r' outside of 'r.i'");
}

TEST(LowerErrors, AStageReadOutsideOfWhereItIsComputedIsRefused) {
  Three p;
  Schedule s({p.D});
  s[p.B].compute_at(s[p.C], s[p.C].axis(0));
  EXPECT_EQ(error_of([&] { lower(s, {p.A, p.D}); }),
            "stage 'B' is computed at loop 'i' of 'C', but 'D' reads it outside of that "
            "loop\n"
            "  help: choose a loop that encloses every reader");
}

TEST(LowerErrors, AStageComputedAtALoopInsideOfItsReaderIsRefused) {
  Three p;
  Schedule s({p.D});
  auto [o, i] = s[p.D].split(s[p.D].axis(0), 4);
  s[p.C].compute_at(s[p.D], o);
  s[p.B].compute_at(s[p.D], i);
  EXPECT_EQ(error_of([&] { lower(s, {p.A, p.D}); }),
            "stage 'B' is computed inside 'D', but 'C' reads it outside of there\n"
            "  help: compute 'B' at a loop that encloses all its readers");
}

TEST(LowerErrors, AStageComputedWhereNobodyReadsItIsRefused) {
  Three p;
  Tensor E = compute({8}, [&](Axis i) { return p.A(i) * 3.f; }, "E");
  Schedule s({p.D, E});
  s[p.C].compute_at(s[E], s[E].axis(0));
  EXPECT_EQ(error_of([&] { lower(s, {p.A, p.D, E}); }),
            "stage 'C' is computed inside 'E', but 'D' reads it outside of there\n"
            "  help: compute 'C' at a loop that encloses all its readers");
}

TEST(LowerErrors, ArgumentsMayComeInAnyOrder) {
  Three p;
  Schedule s({p.D});
  LoweredProgram l = lower(s, {p.D, p.A});
  EXPECT_EQ(l.main.args[0]->name, "D");
  EXPECT_EQ(l.main.args[1]->name, "A");
}

}  // namespace
}  // namespace heddle::testing
