// Every mistake that a declaration can make, with the full text that the user sees.
#include <limits>

#include "dsl/dsl_testing.h"
#include "heddle/ir/print.h"

namespace heddle {
namespace {

class DslError : public testing::Test {
 protected:
  const Tensor a = placeholder({4, 8}, f32, "A");
  const Axis k = reduce_axis(8, "k"), l = reduce_axis(4, "l");
};

TEST_F(DslError, CarriesTheLineOfTheDeclaration) {
  int line = 0;
  try {
    line = __LINE__ + 1;
    compute({4}, [&](Axis i) { return a(i); }, "y");
  } catch (const Error& e) {
    EXPECT_EQ(e.where.line, line);
    EXPECT_THAT(e.where.file, testing::EndsWith("error_test.cpp"));
  }
  EXPECT_NE(line, 0);
}

TEST_F(DslError, ReadOfTheWrongRank) {
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return a(i); }, "y"); }),
            "tensor 'A' has 2 dimensions but is read with 1 index, in the body of 'y' | "
            "its shape is (4, 8); give one index a dimension");
}

TEST_F(DslError, AxisNeverAssigned) {
  const Axis none;
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return a(i, none); }, "y"); }),
            "an Axis that was never assigned is used, in the body of 'y' | a compute gives its "
            "body the axes of its shape; reduce_axis makes one to reduce over");
  EXPECT_NE(error_of([&] { none.extent(); }), "no error");
  EXPECT_NE(error_of([&] { compute({4}, [&](Axis i) { return cast(f32, i + none); }); }),
            "no error");
}

TEST_F(DslError, DivisionByTheConstantZero) {
  for (const auto& divide :
       {+[](Expr x, Expr y) { return x / y; }, +[](Expr x, Expr y) { return x % y; },
        +[](Expr x, Expr y) { return floordiv(std::move(x), std::move(y)); },
        +[](Expr x, Expr y) { return floormod(std::move(x), std::move(y)); }}) {
    EXPECT_THAT(
        error_of([&] { compute({4}, [&](Axis i) { return cast(f32, divide(i, Expr(0))); }, "y"); }),
        testing::HasSubstr("is by 0, in the body of 'y' | divide by something else"));
  }
  compute({4}, [&](Axis i) { return a(i, 0) / 0.f; });  // of floats it is infinite
}

TEST_F(DslError, DivisionByWhatIsAlwaysZero) {
  const Tensor n = placeholder({4}, i32, "n");
  for (const BinaryOp op : {BinaryOp::Div, BinaryOp::Mod, BinaryOp::FloorDiv, BinaryOp::FloorMod}) {
    EXPECT_THAT(error_of([&] {
                  compute(
                      {4}, [&](Axis i) { return make_binary(op, n(i), make_int(i32, 0)); }, "y");
                }),
                testing::HasSubstr("'y' divides integers by 'i32(0)'"));
    EXPECT_THAT(error_of([&] {
                  compute({4}, [&](Axis i) { return make_binary(op, i, i * 2 - i - i); }, "y");
                }),
                testing::HasSubstr("which is always 0 | divide by something else"));
  }
  // One that is never evaluated, and one that is 0 for some elements only.
  compute({4}, [&](Axis i) { return select(Expr(i) >= 4, floordiv(i, i * 2 - i - i), 0); }, "y");
  compute({4}, [&](Axis i) { return select(n(i) != 0, 8 / n(i), 0); }, "y");
}

TEST_F(DslError, IdentityOfAnotherType) {
  const auto add = [](const std::vector<Expr>& x, const std::vector<Expr>& y) {
    return std::vector<Expr>{x[0] + y[0]};
  };
  EXPECT_EQ(error_of([&] { reducer("r", {i32}, {0.5}, add); }),
            "the identity of reducer 'r' is 0.5 of type f64, and its component is of type i32 | "
            "give a constant of that type: make_const(i32, ...)");
  EXPECT_NE(error_of([&] { reducer("r", {i8}, {1000}, add); }), "no error");
  EXPECT_NE(error_of([&] { reducer("r", {f32}, {Expr(true)}, add); }), "no error");
  EXPECT_NE(error_of([&] { reducer("r", {f16}, {1e30}, add); }), "no error");
  // Literals of numbers that the type has.
  reducer("r", {f32}, {0}, add);
  reducer("r", {f32}, {0.0}, add);
  reducer("r", {f32}, {std::numeric_limits<double>::infinity()}, add);
  reducer("r", {i8}, {-3}, add);
}

TEST_F(DslError, FloatIndex) {
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return a(a(i, 0), 0); }, "y"); }),
            "index 0 of tensor 'A' is 'A[i, 0]' of type f32, in the body of 'y' | "
            "an index is an integer; convert it with cast(i64, ...)");
}

TEST_F(DslError, IndexNeverAssigned) {
  EXPECT_EQ(error_of([&] { a.at({Expr(), Expr(0)}); }),
            "index 0 of tensor 'A' is an Expr that was never assigned | ");
}

TEST_F(DslError, TensorNeverAssigned) {
  EXPECT_EQ(error_of([&] { Tensor()(0); }), "a Tensor that was never assigned is used | ");
}

TEST_F(DslError, NoSuchDimension) {
  EXPECT_EQ(error_of([&] { a.extent(2); }), "tensor 'A' has no dimension 2 | its shape is (4, 8)");
}

TEST_F(DslError, MixedTypesSayWhichDeclaration) {
  const Tensor h = placeholder({4, 8}, f16, "H");
  EXPECT_THAT(
      error_of([&] { compute({4, 8}, [&](Axis i, Axis j) { return a(i, j) * h(i, j); }, "y"); }),
      testing::AllOf(testing::HasSubstr("f32 and f16"),
                     testing::HasSubstr(", in the body of 'y'")));
}

TEST_F(DslError, BodyOfTheWrongArity) {
  EXPECT_EQ(error_of([&] { compute({4, 8}, [&](Axis i) { return a(i, i); }, "y"); }),
            "the shape of 'y' has 2 dimensions but its body takes 1 axis | "
            "the body takes one Axis a dimension of the shape");
}

TEST_F(DslError, BodyNeverAssigned) {
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis) { return Expr(); }, "y"); }),
            "the body of 'y' is an Expr that was never assigned | ");
}

TEST_F(DslError, VectorBody) {
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return make_broadcast(i, 8); }, "y"); }),
            "the body of 'y' has the vector type i64x8 | a body computes one element");
}

TEST_F(DslError, VectorPlaceholder) {
  EXPECT_EQ(error_of([&] { placeholder({4}, f32.with_lanes(4), "V"); }),
            "placeholder 'V' has the vector type f32x4 | tensors hold scalars: f32");
}

// ---- extents ----

TEST_F(DslError, NegativeReduceExtent) {
  EXPECT_EQ(error_of([&] { reduce_axis(-3, "r"); }),
            "the extent of reduce axis 'r' is -3 | extents are at least 0");
}

TEST_F(DslError, SymbolicExtent) {
  const Var n("n");
  EXPECT_EQ(error_of([&] { placeholder({n, 4}, f32, "S"); }),
            "the extent of dimension 0 of 'S' is 'n', which is no sum of dimensions | "
            "use constants, and dimensions made with dim(name, lo, hi) times constants");
}

TEST_F(DslError, FloatExtent) {
  EXPECT_THAT(error_of([&] { placeholder({4.5}, f32, "F"); }),
              testing::EndsWith(" of type f64 | an extent is an integer"));
}

TEST_F(DslError, UnassignedExtent) {
  EXPECT_EQ(error_of([&] { reduce_axis(Expr(), "r"); }),
            "the extent of reduce axis 'r' was never assigned | ");
}

TEST_F(DslError, TooManyElements) {
  const int64_t n = int64_t{1} << 30;
  EXPECT_EQ(error_of([&] { placeholder({n, n}, f32, "B"); }),
            "'B' of shape (1073741824, 1073741824) has too many elements | at most 2^56");
}

// ---- reductions ----

TEST_F(DslError, ReductionInsideAnExpression) {
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return sum(a(i, k), k) + 1; }, "y"); }),
            "the body of 'y' uses a reduction inside a larger expression | a reduction must be the "
            "whole body: give it a compute of its own and read that tensor here");
}

TEST_F(DslError, NestedReduction) {
  EXPECT_EQ(error_of([&] { compute({}, [&] { return sum(max(a(l, k), k), l); }, "y"); }),
            "the reduction of 'y' reduces over another reduction | give the inner reduction a "
            "compute of its own, or reduce over several axes at once: sum(value, {k, l})");
}

TEST_F(DslError, ReductionOverASpatialAxis) {
  const auto declare = [&] {
    compute({4, 8}, [&](Axis i, Axis j) { return sum(a(i, j), j); }, "y");
  };
  EXPECT_EQ(error_of(declare),
            "the reduction 'sum' is over 'j', which is a spatial axis, in the body of 'y' | "
            "reduce over an axis made with reduce_axis");
}

TEST_F(DslError, MaxOfTwoAxesIsHinted) {
  EXPECT_EQ(error_of([&] { compute({4, 8}, [&](Axis i, Axis j) { return max(i, j); }, "y"); }),
            "the reduction 'max' is over 'j', which is a spatial axis, in the body of 'y' | to "
            "compare the positions of two axes write max(Expr(i), Expr(j)); to reduce, use a "
            "reduce_axis");
}

TEST_F(DslError, ReductionWithoutAxes) {
  EXPECT_EQ(error_of([&] { sum(a(0, 0), std::vector<Axis>{}); }),
            "the reduction 'sum' is given no axes | make one with reduce_axis(extent)");
}

TEST_F(DslError, ReductionOverAnAxisTwice) {
  EXPECT_EQ(error_of([&] { compute({}, [&] { return sum(a(l, l), {l, l}); }, "y"); }),
            "the reduction of 'y' is given axis 'l' twice | make a second axis with reduce_axis");
}

TEST_F(DslError, ReduceAxisOutsideItsReduction) {
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return a(i, k); }, "y"); }),
            "'y' uses variable 'k', which is neither an axis of it (i) nor reduced over in it | "
            "give a reduce axis to the reduction, as in sum(value, k); an axis of another compute "
            "cannot be used here");
}

TEST_F(DslError, AxisOfAnotherCompute) {
  Axis foreign;
  compute({4, 8}, [&](Axis i, Axis j) {
    foreign = j;
    return a(i, j);
  });
  EXPECT_EQ(error_of([&] { compute({}, [&] { return a(0, foreign); }, "y"); }),
            "'y' uses variable 'j', which is neither an axis of it (it has none) nor reduced over "
            "in it | give a reduce axis to the reduction, as in sum(value, j); an axis of another "
            "compute cannot be used here");
}

TEST_F(DslError, SumOfBools) {
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return sum(a(i, k) < 0.f, k); }, "y"); }),
            "the reduction 'sum' is given a bool value, in the body of 'y' | convert it first, as "
            "in sum(cast(i32, x), k), or use any or all");
}

TEST_F(DslError, AnyOfFloats) {
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return any(a(i, k), k); }, "y"); }),
            "the reduction 'any' is given a value of type f32, in the body of 'y' | it takes a "
            "bool: compare the value first, as in x != 0");
}

TEST_F(DslError, DifferentReductionsInOneComputeAll) {
  EXPECT_EQ(error_of([&] {
              compute_all(
                  {4}, [&](Axis i) { return std::vector<Expr>{sum(a(i, k), k), max(a(i, k), k)}; },
                  "y");
            }),
            "the outputs of 'y' are not one reduction | the outputs of one compute_all are either "
            "the components of one reducer, in order, or no reductions; use a compute for each of "
            "the others");
}

TEST_F(DslError, ComputeAllWithoutOutputs) {
  EXPECT_EQ(error_of([&] { compute_all({4}, [&](Axis) { return std::vector<Expr>{}; }, "y"); }),
            "'y' has no outputs | ");
}

// ---- reducers ----

std::vector<Expr> keep_first(const std::vector<Expr>& a, const std::vector<Expr>&) { return a; }

TEST_F(DslError, OneComponentOfATupleReduction) {
  const Reducer two = reducer("two", {i64, f32}, {0, 0}, keep_first);
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return two({k, a(i, k)}, {k})[0]; }, "y"); }),
            "'y' has 1 output but its reducer 'two' has 2 components | use compute_all and return "
            "what the reducer returned");
}

TEST_F(DslError, ComponentsOutOfOrder) {
  const Reducer two = reducer("two", {i64, f32}, {0, 0}, keep_first);
  EXPECT_EQ(error_of([&] {
              compute_all(
                  {4},
                  [&](Axis i) {
                    const auto c = two({k, a(i, k)}, {k});
                    return std::vector<Expr>{c[1], c[0]};
                  },
                  "y");
            }),
            "output 0 of 'y' is component 1 of its reducer | return the components in order, as "
            "the reducer returned them");
}

TEST_F(DslError, ReducerGivenTooFewValues) {
  const Reducer two = reducer("two", {i64, f32}, {0, 0}, keep_first);
  EXPECT_EQ(error_of([&] { two({k}, {k}); }),
            "reducer 'two' has 2 components but is given 1 values | give one value a component");
}

TEST_F(DslError, ReducerGivenTheWrongType) {
  const Reducer two = reducer("two", {i64, f64}, {0, 0}, keep_first);
  EXPECT_EQ(error_of([&] { two({k, a(0, k)}, {k}); }),
            "component 1 of reducer 'two' has type f64 but is given 'A[0, k]' of type f32 | "
            "convert it with cast(f64, ...)");
}

TEST_F(DslError, ReducerNeverAssigned) {
  EXPECT_EQ(error_of([&] { Reducer()({k}, {k}); }), "a Reducer that was never assigned is used | ");
}

TEST_F(DslError, ReducerWithTooFewIdentities) {
  EXPECT_EQ(error_of([&] { reducer("two", {i64, f32}, {0}, keep_first); }),
            "reducer 'two' has 2 types but 1 identity values | give one identity a component");
}

TEST_F(DslError, ReducerWithoutComponents) {
  EXPECT_EQ(error_of([&] { reducer("none", {}, {}, keep_first); }),
            "reducer 'none' has no components | give one type a component");
}

TEST_F(DslError, ReducerWithAVariableIdentity) {
  EXPECT_EQ(error_of([&] { reducer("r", {i64}, {Var("n")}, keep_first); }),
            "identity 0 of reducer 'r' is not a constant | ");
}

TEST_F(DslError, CombineOfTheWrongCount) {
  const auto nothing = [](const auto&, const auto&) { return std::vector<Expr>{}; };
  EXPECT_EQ(error_of([&] { reducer("r", {f32}, {0}, nothing); }),
            "the combine of reducer 'r' returns 0 values for 1 components | return one value a "
            "component");
}

TEST_F(DslError, CombineOfTheWrongType) {
  EXPECT_EQ(error_of([&] {
              reducer("r", {f32}, {0}, [](const auto& x, const auto& y) {
                return std::vector<Expr>{cast(f64, x[0] + y[0])};
              });
            }),
            "component 0 of reducer 'r' has type f32 but its combine gives f64 | convert it with "
            "cast(f32, ...)");
}

TEST_F(DslError, CombineThatReadsATensor) {
  EXPECT_EQ(error_of([&] {
              reducer("r", {f32}, {0}, [&](const auto& x, const auto&) {
                return std::vector<Expr>{x[0] + a(0, 0)};
              });
            }),
            "the combine of reducer 'r' uses 'A[0, 0]' | a combine may use its two arguments and "
            "constants only");
}

TEST_F(DslError, BuiltinCombinerOfACustomReduction) {
  EXPECT_EQ(error_of([&] { internal::builtin_combiner(ReduceKind::Custom, f32); }),
            "a custom reduction has no built-in combiner | make one with reducer(...)");
}

}  // namespace
}  // namespace heddle
