// Networks with loops, against the interpreter on what is unrolled.
#include "network/loops_testing.h"

#include <filesystem>

#include "heddle/network/export_network.h"
#include "network/exported_library.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

TEST(Loops, DrawnLayersComputeWhatUnrolledOnesDo) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    Rng rng(seed);
    const DrawnLayer layer = draw_layer(rng, 9);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + layer.text);
    const Network network(layer.looped, Target::host(), {}, {}, layer.updates);
    ASSERT_EQ(network.loops().size(), 1U);
    const std::vector<Tensor> args = args_of_loops(layer);
    const NetworkKernel chosen = network.build(args);
    ASSERT_EQ(wrong_layer(layer, network, chosen, 1), "");
    ASSERT_EQ(wrong_layer(layer, network, chosen, 50), "");
    ASSERT_EQ(wrong_layer(layer, network, network.build(args, network.naive_schedules()), 1), "");
  }
}

TEST(Loops, NodesAreAsManyForAnyNumberOfSteps) {
  const Stacked stacked;
  const Network network = stacked.network();
  EXPECT_LE(network.nodes().size(), 12U) << network.to_text();
  ASSERT_EQ(network.loops().size(), 2U);
  for (const NetworkLoop& loop : network.loops()) {
    EXPECT_LT(loop.begin, loop.end);
    for (size_t n = loop.begin; n < loop.end; ++n) {
      const TuneTask& task = network.tasks()[static_cast<size_t>(network.nodes()[n].task)];
      EXPECT_EQ(task.weight, 80) << task.name;
    }
  }
  EXPECT_THAT(network.to_text(), HasSubstr("40 times"));
}

TEST(Loops, LayersFollowEachOther) {
  const Stacked stacked;
  for (const char* passes : {"", "none"}) {
    const Network network = stacked.network(passes);
    const NetworkKernel kernel = network.build({stacked.x, stacked.outputs[0]});
    const NDArray x = NDArray::random({40, 2, 8}, f32, 1);
    const NDArray want = interpret(stacked.unrolled, {{stacked.x, x}})[0];
    NDArray y = NDArray::full({40, 2, 16}, f32, 77);
    for (int call = 0; call < 2; ++call) {
      kernel(x, y);
      EXPECT_TRUE(allclose(y, want, 1e-4, 1e-5)) << passes;
    }
  }
}

// Biases of products of one input that are longer than their columns, as those of a layer are.
TEST(Loops, JoinedProductsReadTheirOwnPartsOfBiases) {
  const Tensor x = placeholder({5, 8}, f32, "x");
  std::vector<Tensor> outputs;
  for (int n = 0; n < 2; ++n) {
    const Tensor product = ops::matmul(x, weights({8, 6})), bias = weights({12}, "bias");
    const Tensor sum =
        compute({5, 6}, [&](Axis i, Axis j) { return product(i, j) + bias(j); }, "sum");
    outputs.push_back(ops::relu(ops::reshape(sum, {30})));
  }
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Loops, AProfileCountsAllTurns) {
  const Stacked stacked;
  const NetworkKernel kernel = stacked.network().build({stacked.x, stacked.outputs[0]});
  const Profile profile =
      kernel.profile({NDArray::random({40, 2, 8}, f32, 1), NDArray::zeros({40, 2, 16}, f32)}, 0.05);
  EXPECT_THAT(profile.to_string(), HasSubstr(", 40 times"));
}

TEST(Loops, ANetworkWithLoopsIsMadeAgainWithOtherPasses) {
  const Stacked stacked;
  const Network network = stacked.network().with_passes(parse_passes("none"));
  EXPECT_EQ(network.loops().size(), 2U);
  const NetworkKernel kernel = network.build({stacked.x, stacked.outputs[0]});
  EXPECT_EQ(kernel.args().size(), 2U);
}

/// y(t, i) = y(t - 1, i) + x(t, i), and the sum of all rows.
struct Sums {
  Dim turns = dim("turns", 1, 30), wide = dim("wide", 1, 9);
  Tensor x = placeholder({turns, wide}, f32, "x"), start = placeholder({wide}, f32, "start");
  Tensor y, last;
  Updates updates;
  explicit Sums(bool reverse = false) {
    Recurrence loop("sums", Expr(turns));
    const Tensor row = loop.row(x, reverse), before = loop.state(start), two = loop.state(start);
    const Tensor sum = compute({wide}, [&](Axis i) { return before(i) + row(i); }, "sum");
    loop.next(before, sum);
    loop.next(two, compute({wide}, [&](Axis i) { return row(i) * two(i); }, "product"));
    last = ops::neg(loop.last(two));
    y = compute(
        {turns, wide}, [all = loop.all(sum, reverse)](Axis t, Axis i) { return all(t, i) * 2; },
        "twice");
    updates = Updates({}, {loop.repeat()});
  }
  std::vector<Tensor> args() const { return {x, start, y, last}; }
  /// "" where `y` and `last` are right.
  static std::string wrong(const NDArray& x, const NDArray& start, const NDArray& y,
                           const NDArray& last, bool reverse) {
    const int64_t turns = x.shape()[0], wide = x.shape()[1];
    for (int64_t i = 0; i < wide; ++i) {
      float sum = start.data<float>()[i], product = sum;
      for (int64_t n = 0; n < turns; ++n) {
        const int64_t t = reverse ? turns - 1 - n : n;
        sum += x.data<float>()[t * wide + i];
        product *= x.data<float>()[t * wide + i];
        if (std::abs(y.data<float>()[t * wide + i] - 2 * sum) > 1e-4F)
          return "y(" + std::to_string(t) + ", " + std::to_string(i) + ")";
      }
      if (std::abs(last.data<float>()[i] + product) > 1e-4F)
        return "last(" + std::to_string(i) + ")";
    }
    return "";
  }
};

TEST(Loops, TurnsAreASizeOfTheCall) {
  for (const bool reverse : {false, true}) {
    const Sums sums(reverse);
    const Network network({sums.y, sums.last}, Target::host(), {}, {}, sums.updates);
    const NetworkKernel kernel = network.build(sums.args());
    for (const int64_t turns : {30, 1, 2, 3, 17}) {
      for (const int64_t wide : {9, 1, 4}) {
        const NDArray x = NDArray::random({turns, wide}, f32, 1),
                      start = NDArray::random({wide}, f32, 2);
        NDArray y = NDArray::full({turns, wide}, f32, 77), last = NDArray::full({wide}, f32, 77);
        kernel(x, start, y, last);
        EXPECT_EQ(Sums::wrong(x, start, y, last, reverse), "") << turns << " " << wide;
      }
    }
    const Network at = network.at({{sums.turns, 5}, {sums.wide, 3}});
    ASSERT_EQ(at.loops().size(), 1U);
    EXPECT_EQ(*as_int(at.loops()[0].turns), 5);
  }
}

TEST(Loops, AreExported) {
  if (kSanitized) GTEST_SKIP() << "the runtime in the library needs a program with the sanitizer";
  const std::string folder =
      (std::filesystem::path(::testing::TempDir()) / "heddle_loops").string();
  for (const bool reverse : {false, true}) {
    const Sums sums(reverse);
    const Network network({sums.y, sums.last}, Target::host(), {}, {}, sums.updates);
    const std::string name = reverse ? "back" : "sums";
    const ExportedNetwork written = export_network(network, sums.args(), folder, {.name = name});
    const ExportedLibrary library(written.library, name);
    using Run = int(void*, int64_t, int64_t, const void* const*, void* const*);
    Run* const run = library.find<Run>(name + "_run");
    void* const open = library.open(nullptr);
    ASSERT_NE(open, nullptr) << library.error();
    for (const int64_t turns : {30, 1, 2, 17}) {
      const NDArray x = NDArray::random({turns, 4}, f32, 1), start = NDArray::random({4}, f32, 2);
      NDArray y = NDArray::full({turns, 4}, f32, 77), last = NDArray::full({4}, f32, 77);
      const void* inputs[] = {x.data(), start.data()};
      void* outputs[] = {y.data(), last.data()};
      ASSERT_EQ(run(open, turns, 4, inputs, outputs), 0) << library.error();
      EXPECT_EQ(Sums::wrong(x, start, y, last, reverse), "") << turns;
    }
    library.close(open);
  }
  std::filesystem::remove_all(folder);
}

TEST(Loops, MistakesAreNamed) {
  const Tensor x = placeholder({5, 4}, f32, "x"), zero = ops::full({4}, 0, f32);
  EXPECT_THAT(message_of([&] { Recurrence("none", Expr(0)); }),
              HasSubstr("loop 'none' has 0 turns"));
  EXPECT_THAT(message_of([&] { Recurrence("l", Expr(6)).row(x); }),
              HasSubstr("has 6 turns, and takes rows of 'x'"));
  Recurrence loop("l", Expr(5));
  const Tensor row = loop.row(x), state = loop.state(zero);
  EXPECT_THAT(message_of([&] { loop.last(state); }), HasSubstr("has no next value yet"));
  EXPECT_THAT(message_of([&] { loop.next(row, row); }), HasSubstr("is no state of loop 'l'"));
  EXPECT_THAT(message_of([&] { loop.next(state, x); }), HasSubstr("a state of loop 'l' is f32"));
  EXPECT_THAT(message_of([&] { (void)loop.repeat(); }),
              HasSubstr("has no value for the next turn"));
  loop.next(state, ops::add(state, row));
  const Tensor all = loop.all(row);
  const Tensor y = ops::relu(all);
  EXPECT_THAT(message_of([&] { Network({y}).build({x, y}); }),
              HasSubstr("argument 'x' is neither an input nor an output of the network"));
  // A turn reads what is known behind the loop.
  Recurrence circle("circle", Expr(5));
  const Tensor from = circle.row(x), to = circle.state(zero);
  const Tensor rows = circle.all(ops::relu(from));
  const Axis k = reduce_axis(5, "k");
  const Tensor total = compute({4}, [&](Axis i) { return sum(rows(k, i), k); }, "total");
  circle.next(to, ops::add(ops::add(to, from), total));
  const Tensor z = ops::relu(circle.last(to));
  EXPECT_THAT(
      message_of([&] { Network({z}, Target::host(), {}, {}, Updates({}, {circle.repeat()})); }),
      HasSubstr("what it reads depends on its own results"));
}

}  // namespace
}  // namespace heddle::testing
