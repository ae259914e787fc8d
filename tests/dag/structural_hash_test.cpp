#include <gtest/gtest.h>

#include <set>

#include "dag/declarations.h"

namespace heddle::dag_test {
namespace {

struct Options {
  int m = 32, n = 64, k = 16;
  DataType type = f32;
  float constant = 0.f;
  bool transposed = false, constant_b = false, swapped = false;
  std::string prefix = "";
  bool backwards = false;  // create the inputs in the other order
};

ComputeDag dense(const Options& o) {
  Tensor a, b;
  const auto make_a = [&] { a = placeholder({o.m, o.k}, o.type, o.prefix + "A"); };
  const auto make_b = [&] {
    const Shape shape = o.transposed ? Shape{o.n, o.k} : Shape{o.k, o.n};
    b = o.constant_b ? constant_placeholder(shape, o.type, o.prefix + "B")
                     : placeholder(shape, o.type, o.prefix + "B");
  };
  if (o.backwards) {
    make_b();
    make_a();
  } else {
    make_a();
    make_b();
  }
  Axis k = reduce_axis(o.k, o.prefix + "k");
  Tensor c = compute(
      {o.m, o.n},
      [&](Axis i, Axis j) {
        Expr x = a(i, k), y = o.transposed ? b(j, k) : b(k, j);
        return sum(o.swapped ? y * x : x * y, k);
      },
      o.prefix + "C");
  Tensor d = compute(
      {o.m, o.n}, [&](Axis i, Axis j) { return max(c(i, j), make_const(o.type, o.constant)); },
      o.prefix + "D");
  return ComputeDag({d});
}

TEST(StructuralHash, DoesNotSeeNamesOrOrderOfCreation) {
  const uint64_t h = dense({}).structural_hash();
  EXPECT_EQ(dense({}).structural_hash(), h);
  EXPECT_EQ(dense({.prefix = "other_"}).structural_hash(), h);
  EXPECT_EQ(dense({.backwards = true}).structural_hash(), h);
  const ComputeDag copy = dense({});
  const ComputeDag second = copy;
  EXPECT_EQ(second.structural_hash(), h);
}

TEST(StructuralHash, SeesEveryChange) {
  std::set<uint64_t> hashes;
  const std::vector<Options> all = {{},
                                    {.m = 33},
                                    {.n = 65},
                                    {.k = 17},
                                    {.m = 64, .n = 32},
                                    {.type = f64},
                                    {.type = f16},
                                    {.type = bf16},
                                    {.constant = 1.f},
                                    {.constant = -0.f},
                                    {.transposed = true},
                                    {.constant_b = true},
                                    {.swapped = true}};
  for (const Options& o : all) hashes.insert(dense(o).structural_hash());
  EXPECT_EQ(hashes.size(), all.size());
}

TEST(StructuralHash, SeesTheReducerTheAxesAndTheOutputs) {
  Tensor x = placeholder({8, 8}, f32, "x");
  Axis k = reduce_axis(8, "k"), r = reduce_axis(8, "r");
  std::set<uint64_t> hashes;
  int count = 0;
  const auto add = [&](std::vector<Tensor> outputs) {
    hashes.insert(ComputeDag(std::move(outputs)).structural_hash());
    ++count;
  };
  add({compute({8}, [&](Axis i) { return sum(x(i, k), k); })});
  add({compute({8}, [&](Axis i) { return max(x(i, k), k); })});
  add({compute({8}, [&](Axis i) { return sum(x(k, i), k); })});
  add({compute({8}, [&](Axis i) { return x(i, i); })});
  add({compute({}, [&](const std::vector<Axis>&) { return sum(x(k, r), {k, r}); })});
  add({compute({}, [&](const std::vector<Axis>&) { return sum(x(r, k), {k, r}); })});
  Tensor p = compute({8, 8}, [&](Axis i, Axis j) { return x(i, j) + 1.f; });
  Tensor q = compute({8, 8}, [&](Axis i, Axis j) { return p(i, j) * 2.f; });
  add({q});
  add({q, p});
  add({p, q});
  const auto t = compute_all({8}, [&](Axis i) { return std::vector<Expr>{x(i, 0), x(i, 1)}; });
  add({t[0]});
  add({t[1]});
  add({t[0], t[1]});
  EXPECT_EQ(hashes.size(), static_cast<size_t>(count));
}

TEST(StructuralHash, TwoReadsOfOneTensorAreNotReadsOfTwo) {
  Tensor x = placeholder({8}, f32, "x"), y = placeholder({8}, f32, "y");
  const auto add = [](Tensor a, Tensor b) {
    return ComputeDag({compute({8}, [&](Axis i) { return a(i) + b(i); })}).structural_hash();
  };
  EXPECT_NE(add(x, y), add(x, x));
  EXPECT_EQ(add(x, y), add(y, x));  // the first read is the first input
  EXPECT_EQ(add(x, x), add(y, y));
}

TEST(StructuralHash, AUsersReducerThatAddsIsASum) {
  Tensor x = placeholder({8, 8}, f32, "x");
  Axis k = reduce_axis(8, "k");
  Reducer mine = reducer("mine", {f32}, {Expr(0.f)},
                         [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                           return std::vector<Expr>{a[0] + b[0]};
                         });
  Tensor s = compute({8}, [&](Axis i) { return sum(x(i, k), k); });
  Tensor t = compute({8}, [&](Axis i) { return mine({x(i, k)}, {k})[0]; });
  EXPECT_EQ(ComputeDag({s}).structural_hash(), ComputeDag({t}).structural_hash());
}

// Records on disk are found by these. If one changes, every record ever written is lost: change the
// declaration's construction back, or be very sure.
TEST(StructuralHash, GoldenValues) {
  EXPECT_EQ(dense({}).structural_hash(), 2602160468631906250u);
  EXPECT_EQ(ComputeDag({Softmax().y}).structural_hash(), 13759032405247118957u);
  EXPECT_EQ(ComputeDag({Conv(64, 56, 64, 3, 1, 1).relu}).structural_hash(), 4088469409467063115u);
}

}  // namespace
}  // namespace heddle::dag_test
