#include "heddle/dsl/tensor.h"

#include "dsl/dsl_testing.h"
#include "heddle/ir/print.h"

namespace heddle {
namespace {

TEST(Placeholder, KnowsItsNameTypeAndShape) {
  const Tensor a = placeholder({4, 8}, f16, "A");
  EXPECT_EQ(a.name(), "A");
  EXPECT_EQ(a.dtype(), f16);
  EXPECT_EQ(a.rank(), 2);
  EXPECT_EQ(a.extents(), (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(a.extent(-1), 8);
  EXPECT_TRUE(a.op()->is_placeholder());
  EXPECT_FALSE(a.op()->is_constant());
}

TEST(Placeholder, OfWeightsIsConstant) {
  EXPECT_TRUE(constant_placeholder({4}).op()->is_constant());
}

TEST(Placeholder, RemembersItsLine) {
  const Tensor a = placeholder({4});
  EXPECT_EQ(a.op()->where().line, __LINE__ - 1);
  EXPECT_THAT(a.op()->where().file, testing::EndsWith("tensor_test.cpp"));
}

TEST(Placeholder, OfRankZeroIsReadByAt) {
  const Tensor s = placeholder({}, f32, "s");
  const Tensor y = compute({3}, [&](Axis) { return s.at({}) * 2; });
  EXPECT_EQ(y.op()->inputs().size(), 1u);
}

TEST(Compute, TakesTheTypeOfItsBody) {
  const Tensor a = placeholder({4, 8}, f32, "A");
  const Tensor y = compute({4, 8}, [&](Axis i, Axis j) { return a(i, j) < 0.f; }, "y", "negative");
  EXPECT_EQ(y.dtype(), boolean);
  EXPECT_EQ(y.name(), "y");
  EXPECT_EQ(y.op()->tag(), "negative");
  EXPECT_EQ(y.op()->axes().size(), 2u);
  EXPECT_FALSE(y.op()->is_reduction());
}

TEST(Compute, OfTheFacesExampleKeepsAxesInOrder) {
  const Tensor a = placeholder({4, 6}), b = placeholder({6, 5}), bias = placeholder({5});
  const Axis k = reduce_axis(6, "k");
  const Tensor c = compute({4, 5}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, j), k); }, "C");
  const Tensor d =
      compute({4, 5}, [&](Axis i, Axis j) { return max(c(i, j) + bias(j), 0.f); }, "D");
  EXPECT_TRUE(c.op()->is_reduction());
  ASSERT_EQ(c.op()->reduce_axes().size(), 1u);
  EXPECT_TRUE(c.op()->reduce_axes()[0].same_as(k));
  ASSERT_EQ(d.op()->inputs().size(), 2u);
  EXPECT_TRUE(d.op()->inputs()[0].same_as(c));
  EXPECT_TRUE(d.op()->inputs()[1].same_as(bias));
}

TEST(Compute, TakesABodyOfAnyRank) {
  const Tensor a = placeholder({2, 3, 4});
  const Tensor y = compute(a.shape(), [&](const std::vector<Axis>& i) { return a(i) + 1; });
  EXPECT_EQ(y.rank(), 3);
  EXPECT_EQ(y.op()->axes()[2].extent(), 4);
}

TEST(Compute, OfRankZeroIsAFullReduction) {
  const Tensor a = placeholder({5}, i32);
  const Axis k = reduce_axis(5);
  const Tensor y = compute({}, [&] { return sum(a(k), k); });
  EXPECT_EQ(y.rank(), 0);
  EXPECT_EQ(y.dtype(), i32);
}

TEST(Compute, ReadsEachTensorOnceInItsInputs) {
  const Tensor a = placeholder({4});
  const Tensor y = compute({4}, [&](Axis i) { return a(i) * a(3 - i); });
  EXPECT_EQ(y.op()->inputs().size(), 1u);
}

TEST(Compute, ConvertsNarrowIndices) {
  const Tensor a = placeholder({256}), index = placeholder({4}, u8);
  const Tensor y = compute({4}, [&](Axis i) { return a(index(i)); });
  EXPECT_EQ(y.op()->inputs().size(), 2u);
}

TEST(ComputeAll, HasOneOutputABody) {
  const Tensor a = placeholder({4});
  const std::vector<Tensor> out =
      compute_all({4}, [&](Axis i) { return std::vector<Expr>{a(i), a(i) < 0.f}; }, "both");
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].name(), "both.1");
  EXPECT_EQ(out[1].dtype(), boolean);
  EXPECT_EQ(out[0].op(), out[1].op());
  EXPECT_FALSE(out[0].same_as(out[1]));
}

TEST(ComputeAll, TakesATupleReduction) {
  const Tensor a = placeholder({4, 9});
  const Axis k = reduce_axis(9);
  const Reducer arg =
      reducer("argmax", {i64, f32}, {-1, lowest_value(f32)},
              [](const std::vector<Expr>& x, const std::vector<Expr>& y) {
                const Expr first = x[1] >= y[1];
                return std::vector<Expr>{select(first, x[0], y[0]), select(first, x[1], y[1])};
              });
  const auto out = compute_all({4}, [&](Axis i) { return arg({k, a(i, k)}, {k}); }, "arg");
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].dtype(), i64);
  EXPECT_EQ(out[1].dtype(), f32);
  EXPECT_TRUE(out[0].op()->is_reduction());
}

TEST(TensorOf, FindsTheTensorOfABuffer) {
  const Tensor a = placeholder({4});
  const auto out = compute_all({4}, [&](Axis i) { return std::vector<Expr>{a(i), a(i) + 1}; });
  EXPECT_TRUE(tensor_of(out[1].buffer()).same_as(out[1]));
  EXPECT_FALSE(tensor_of(Buffer::make("lowered", f32, {4}, Scope::Local)));
}

TEST(BuiltinCombiner, IsOneForEachKindAndType) {
  EXPECT_EQ(internal::builtin_combiner(ReduceKind::Sum, f32),
            internal::builtin_combiner(ReduceKind::Sum, f32));
  EXPECT_FALSE(internal::builtin_combiner(ReduceKind::Sum, f32) ==
               internal::builtin_combiner(ReduceKind::Sum, f64));
  EXPECT_EQ(to_string(internal::builtin_combiner(ReduceKind::Max, i8)->identity[0]),
            to_string(make_int(i8, -128)));
}

TEST(ExtremeValues, CoverEveryType) {
  EXPECT_EQ(*as_int(highest_value(u8)), 255);
  EXPECT_EQ(*as_int(lowest_value(u8)), 0);
  EXPECT_EQ(*as_int(lowest_value(i64)), INT64_MIN);
  EXPECT_EQ(*as_int(highest_value(i16)), 32767);
  EXPECT_EQ(*as_int(highest_value(u64)), -1);
  EXPECT_TRUE(is_const(lowest_value(bf16)));
}

// ---- lifetime: only the last tensor holds the chain, and nothing leaks (run with ASan) ----

TEST(Lifetime, AConsumerKeepsItsProducersAlive) {
  Tensor last;
  {
    const Tensor a = placeholder({8}, f32, "A");
    Tensor t = a;
    for (int i = 0; i < 5; ++i)
      t = compute({8}, [&](Axis x) { return t(x) + 1; }, "t" + std::to_string(i));
    last = t;
  }
  std::string names;
  while (true) {
    names += last.name() + " ";
    if (last.op()->is_placeholder()) break;
    last = Tensor(last.op()->inputs()[0]);
  }
  EXPECT_EQ(names, "t4 t3 t2 t1 t0 A ");
}

TEST(Lifetime, ABufferKeepsItsOperationAlive) {
  Buffer buffer;
  {
    const Tensor a = placeholder({8}, f32, "A");
    buffer = compute({8}, [&](Axis x) { return a(x); }, "y").buffer();
  }
  EXPECT_EQ(tensor_of(buffer).op()->inputs()[0].name(), "A");
}

TEST(Lifetime, AnExpressionKeepsTheTensorItReadsAlive) {
  Expr read;
  {
    const Tensor a = placeholder({8}, f32, "A");
    read = a(3);
  }
  EXPECT_EQ(read.as<Load>()->buffer->name, "A");
}

TEST(Lifetime, AnOperationDoesNotCountItsOwnBuffers) {
  const Tensor a = placeholder({8});
  EXPECT_EQ(a.op()->use_count(), 1u);
  const auto out = compute_all({8}, [&](Axis x) { return std::vector<Expr>{a(x), a(x)}; });
  EXPECT_EQ(out[0].op()->use_count(), 2u);  // the two tensors
}

}  // namespace
}  // namespace heddle
