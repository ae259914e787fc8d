// Races of the kernels of networks over dimensions, and their records.
#include "heddle/network/size_kernels.h"

#include <unistd.h>

#include <filesystem>

#include "network/network_testing.h"
#include "network/sizes/whole_size_choice.h"
#include "network/sizes_testing.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Two layers on `rows` rows, and a sum of each row. The weights are constants with values.
struct Layers {
  explicit Layers(int64_t largest = 40) : rows(dim("rows", 1, largest)) {
    const auto layer = [&](const Tensor& a, int64_t from, int64_t to) {
      const Axis k = reduce_axis(from, "k");
      const Tensor w = constant(NDArray::random({from, to}, f32, 3), "w");
      const Tensor sums =
          compute({rows, to}, [&](Axis i, Axis j) { return sum(a(i, k) * w(k, j), k); }, "sums");
      return compute({rows, to}, [&](Axis i, Axis j) { return max(sums(i, j), 0.f); }, "layer");
    };
    y = layer(layer(x = placeholder({rows, 12}, f32, "x"), 12, 30), 30, 7);
  }
  std::vector<Tensor> args() const { return {x, y}; }
  std::vector<Dim> dims() const { return {rows}; }

  Dim rows;
  Tensor x, y;
};

Target two_threads() {
  Target target = Target::host();
  target.cores = 2;
  return target;
}

KernelRaceOptions quick(int most = 6) {
  KernelRaceOptions options;
  options.race_seconds = 0.01;
  options.max_kernels = most;
  return options;
}

std::string wrong_at_any(const NetworkKernel& kernel, const Layers& net) {
  for (int64_t n = net.rows.hi(); n >= 1; --n) {
    const std::string wrong = wrong_at(kernel, {net.y}, net.args(), {{net.rows, n}});
    if (!wrong.empty()) return std::to_string(n) + " rows: " + wrong;
  }
  return "";
}

TEST(SizeKernels, EveryTaskHasAFewThatAreRightAtEverySize) {
  const Layers net;
  const Network network({net.y}, two_threads());
  const std::vector<TaskKernels> kernels = choose_kernels(network, net.dims(), quick(2));
  ASSERT_EQ(kernels.size(), 2u);
  for (const TaskKernels& k : kernels) {
    EXPECT_LE(k.kernels.variants.size(), 2u);
    EXPECT_GT(k.kernels.candidates, 2) << k.name;
    // Four points, and two sizes between each two of them: some fall together.
    ASSERT_GE(k.kernels.rows.size(), 6u);
    EXPECT_EQ(k.kernels.rows.front().point.sizes, std::vector<int64_t>{1});
    EXPECT_EQ(k.kernels.rows.back().point.sizes, std::vector<int64_t>{40});
    for (const FamilyRow& row : k.kernels.rows) EXPECT_GE(row.slowdown, 1);
  }
  EXPECT_EQ(wrong_at_any(network.build(net.args(), kernels), net), "");
}

TEST(SizeKernels, EveryCandidateIsRightAtEverySize) {
  const Layers net(20);
  const Network network({net.y}, two_threads());
  std::vector<TaskKernels> kernels = choose_kernels(network, net.dims(), quick());
  for (TaskKernels& k : kernels) {
    for (size_t v = 0; v < k.kernels.variants.size(); ++v) {
      k.kernels.tree = {TreeNode{.yes = static_cast<int>(v)}};
      EXPECT_EQ(wrong_at_any(network.build(net.args(), kernels), net), "") << v;
    }
  }
}

TEST(SizeKernels, AHistogramSaysWhereTheyRace) {
  const Layers net;
  const Network network({net.y}, two_threads());
  KernelRaceOptions options = quick();
  options.histogram = {{{3}, 5}, {{33}, 1}};
  const std::vector<TaskKernels> kernels = choose_kernels(network, net.dims(), options);
  for (const TaskKernels& k : kernels) {
    ASSERT_EQ(k.kernels.rows.size(), 2u);
    EXPECT_EQ(k.kernels.rows[0].point.sizes, std::vector<int64_t>{3});
    EXPECT_EQ(k.kernels.rows[0].point.weight, 5);
    EXPECT_EQ(k.kernels.rows[1].point.sizes, std::vector<int64_t>{33});
  }
  const std::string text = to_text(kernels);
  EXPECT_THAT(text, HasSubstr("tasks over rows"));
  EXPECT_THAT(text, HasSubstr(kernels[0].name));
  EXPECT_EQ(to_json(kernels).at(1).at("family").at("rows").size(), 2u);
  options.histogram = {{{41}, 1}};
  EXPECT_THAT(message_of([&] { choose_kernels(network, net.dims(), options); }),
              HasSubstr("cannot be 41"));
}

TEST(SizeKernels, TwoDimensionsInAnyOrder) {
  const Dim rows = dim("rows", 1, 9), wide = dim("wide", 8, 32).multiple_of(8);
  const Tensor x = placeholder({rows, 12}, f32, "x"), z = placeholder({12, wide}, f32, "z");
  const Axis k = reduce_axis(12, "k");
  const Tensor y =
      compute({rows, wide}, [&](Axis i, Axis j) { return sum(x(i, k) * z(k, j), k); }, "y");
  const Network network({y}, two_threads());
  KernelRaceOptions options = quick();
  options.histogram = {{{16, 9}, 1}, {{32, 1}, 1}};
  const std::vector<TaskKernels> kernels = choose_kernels(network, {wide, rows}, options);
  const NetworkKernel kernel = network.build({x, z, y}, kernels);
  for (int64_t r = 1; r <= 9; ++r) {
    for (int64_t w = 8; w <= 32; w += 8)
      EXPECT_EQ(wrong_at(kernel, {y}, {x, z, y}, {{rows, r}, {wide, w}}), "") << r << " " << w;
  }
}

TEST(WholeSizeChoice, TheLeastExpectedTimeWinsBeyondNoise) {
  // At two sizes: the static choice, and two others.
  const network::WholeCalls calls = {{{10, 10, 12}, {8, 8, 9}, {11, 11, 11}},
                                     {{20, 20, 20}, {22, 22, 60}, {10, 10, 10}}};
  EXPECT_EQ(network::best_rival(calls, {1, 1}), 2U);
  EXPECT_EQ(network::best_rival(calls, {20, 1}), 1U);
  EXPECT_EQ(network::not_faster_at(calls, 1), (std::vector<bool>{false, true}));
  EXPECT_EQ(network::best_rival({{{100}, {99.5}}}, {3}), 0U) << "a gain within noise";
  EXPECT_EQ(network::best_rival({{{100}, {98}}}, {3}), 1U);
}

class RecordedKernels : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(log_); }
  void TearDown() override { std::filesystem::remove(log_); }
  AutoSchedulerOptions options() const {
    AutoSchedulerOptions o;
    o.record_log = log_;
    return o;
  }
  std::string log_ = (std::filesystem::path(::testing::TempDir()) /
                      ("heddle_kernels_" + std::to_string(::getpid()) + ".jsonl"))
                         .string();
};

TEST_F(RecordedKernels, AreFoundByBuildsOfTheSameRanges) {
  const Layers net;
  const Network network({net.y}, two_threads(), options());
  EXPECT_TRUE(recorded_kernels(network, net.dims()).empty());
  const std::vector<TaskKernels> kernels = choose_kernels(network, net.dims(), quick(1));
  record_kernels(network, kernels, log_);
  reload_tophub();
  // Another declaration of the same layers has other variables for the same sizes.
  const Layers again;
  const Network later({again.y}, two_threads(), options());
  const std::vector<TaskKernels> found = recorded_kernels(later, again.dims());
  ASSERT_EQ(found.size(), kernels.size());
  EXPECT_EQ(to_json(found).dump(), to_json(kernels).dump());
  const NetworkKernel built = later.build(again.args());
  EXPECT_EQ(built.build_report().kernels, 2) << "one kernel for each task, as the record says";
  EXPECT_EQ(wrong_at_any(built, again), "");
  const Layers other(41);
  EXPECT_TRUE(recorded_kernels(Network({other.y}, two_threads(), options()), other.dims()).empty());
  EXPECT_TRUE(recorded_kernels(
                  Network({again.y}, Target::parse("llvm -mcpu=haswell -threads=3"), options()),
                  again.dims())
                  .empty());
}

/// A convolution of some images of 64 channels, for which Winograd's form is chosen on many CPUs.
struct Images {
  Images() {
    const Tensor w = constant(NDArray::random({64, 64, 3, 3}, f32, 3), "w");
    const Axis c = reduce_axis(64, "c"), r = reduce_axis(3, "r"), s = reduce_axis(3, "s");
    x = placeholder({n, 64, 16, 16}, f32, "x");
    y = compute(
        {n, 64, 14, 14},
        [&](Axis i, Axis k, Axis h, Axis v) {
          return sum(x(i, c, h + r, v + s) * w(k, c, r, s), {c, r, s});
        },
        "conv");
  }
  std::string wrong(const NetworkKernel& kernel) const {
    for (const int64_t images : {1, 2, 5}) {
      const std::string text = wrong_at(kernel, {y}, {x, y}, {{n, images}});
      if (!text.empty()) return std::to_string(images) + " images: " + text;
    }
    return "";
  }
  Dim n = dim("n", 1, 5);
  Tensor x, y;
};

TEST_F(RecordedKernels, MayBeOfAlternatives) {
  const Images net;
  const Network network({net.y}, two_threads(), options());
  const std::string rule =
      create_schedule(at_sizes({net.y}, {{net.n, 5}}).outputs, two_threads()).dag().alternative();
  EXPECT_EQ(network.static_schedules().back().dag().alternative(), rule);
  EXPECT_EQ(net.wrong(network.build({net.x, net.y})), "");
  const std::vector<TaskKernels> kernels = choose_kernels(network, {net.n}, quick(1));
  ASSERT_EQ(kernels.size(), 1u);
  record_kernels(network, kernels, log_);
  reload_tophub();
  const Images again;
  const Network later({again.y}, two_threads(), options());
  const std::vector<TaskKernels> found = recorded_kernels(later, {again.n});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(to_json(found).dump(), to_json(kernels).dump());
  EXPECT_EQ(again.wrong(later.build({again.x, again.y})), "");
}

TEST_F(RecordedKernels, ThatDoNotApplyAreLeftOut) {
  const Layers net;
  const Network network({net.y}, two_threads(), options());
  record_kernels(network, choose_kernels(network, net.dims(), quick(1)), log_);
  std::string text = read_file(log_);
  // A leaf of the tree names a kernel that is not there.
  const std::string leaf = "\"tree\":[{\"leaf\":";
  ASSERT_NE(text.find(leaf), std::string::npos);
  for (size_t at = text.find(leaf); at != std::string::npos; at = text.find(leaf, at + 1))
    text.insert(at + leaf.size(), "9");
  write_file_atomic(log_, text);
  reload_tophub();
  EXPECT_TRUE(recorded_kernels(network, net.dims()).empty());
  EXPECT_EQ(wrong_at_any(network.build(net.args()), net), "");
}

TEST(SizeKernels, MistakesAreExplained) {
  const Layers net, other;
  const Network network({net.y}, two_threads());
  EXPECT_THAT(message_of([&] { choose_kernels(network, other.dims(), quick()); }),
              HasSubstr("not those of the network"));
  EXPECT_THAT(message_of([&] { choose_kernels(network, {}, quick()); }),
              HasSubstr("not those of the network"));
  const Instance one = at_sizes({net.y}, {{net.rows, 3}});
  EXPECT_THAT(message_of([&] { choose_kernels(Network(one.outputs), {}, quick()); }),
              HasSubstr("constant extents"));
  const std::vector<TaskKernels> kernels = choose_kernels(network, net.dims(), quick(1));
  const Network of_another({other.y}, two_threads());
  EXPECT_THAT(message_of([&] { of_another.build(other.args(), kernels); }),
              HasSubstr("not for task 0 of this network"));
}

// Kernels of one node that pack its weights in the same way have them in memory once.
TEST(SizeKernels, PackedWeightsAreShared) {
  const Dim rows = dim("rows", 1, 300);
  const Tensor x = placeholder({rows, 64}, f32, "x"), w = constant_placeholder({64, 96}, f32, "w");
  const Axis k = reduce_axis(64, "k");
  const Tensor y =
      compute({rows, 96}, [&](Axis i, Axis j) { return sum(x(i, k) * w(k, j), k); }, "y");
  const std::vector<Tensor> args = {x, w, y};
  const Kernel first = build(family_schedule({y}, {{rows, 300}}), args),
               second = build(family_schedule({y}, {{rows, 280}}), args, {.name = "other"}),
               naive = build(naive_schedule({y}), args);
  ASSERT_TRUE(first.has_persistent());
  EXPECT_FALSE(first.share_prepared(naive));
  ASSERT_TRUE(second.share_prepared(first));
  NDArray a = NDArray::random({5, 64}, f32, 1), b = NDArray::random({64, 96}, f32, 2),
          c = NDArray::zeros({5, 96}, f32), d = NDArray::zeros({5, 96}, f32);
  first(a, b, c);
  second(a, b, d);
  EXPECT_TRUE(allclose(c, d, 1e-5, 1e-5));
  EXPECT_EQ(first.prepared(std::array{a, b, c})[0].data(),
            second.prepared(std::array{a, b, d})[0].data());
  // A refresh of one is a refresh of both.
  for (int64_t i = 0; i < b.size(); ++i) b.data<float>()[i] *= 2;
  second.refresh();
  first(a, b, d);
  for (int64_t i = 0; i < c.size(); ++i) c.data<float>()[i] *= 2;
  EXPECT_TRUE(allclose(c, d, 1e-5, 1e-5));
}

}  // namespace
}  // namespace heddle::testing
