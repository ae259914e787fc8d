// What lies between nodes: the order that keeps it small, and results that are computed again.
#include "network/cut/memory/recompute.h"

#include <unistd.h>

#include <filesystem>

#include "heddle/dsl/update.h"
#include "heddle/network/export_network.h"
#include "heddle/ops/training.h"
#include "network/cut/memory/order_for_memory.h"
#include "network/exported_library.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using network::BufferGraph;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Nodes by the tensors that they read and write, all of 1,024 bytes or more.
class Nodes {
 public:
  Tensor tensor(int64_t kilobytes = 1) const { return placeholder({256 * kilobytes}, f32, "t"); }
  void add(const std::vector<Tensor>& reads, const Tensor& writes) {
    graph_.add_node(reads, {writes});
    std::set<size_t>& before = before_.emplace_back();
    for (const Tensor& t : reads) {
      if (writer_.contains(t.op())) before.insert(writer_.at(t.op()));
    }
    writer_[writes.op()] = before_.size() - 1;
  }
  const BufferGraph& graph() const { return graph_; }
  const std::vector<std::set<size_t>>& before() const { return before_; }

 private:
  BufferGraph graph_{{}, [](const Tensor&) { return false; }};
  std::vector<std::set<size_t>> before_;
  std::map<const Operation*, size_t> writer_;
};

TEST(OrderForMemory, WhatFreesMemoryRunsFirst) {
  // Gradients d of activations, each of which gives one of a weight, in the order of a walk from the
  // last output: d0 d1 d2, then the small ones.
  Nodes nodes;
  std::vector<Tensor> d;
  for (int i = 0; i < 4; ++i) {
    d.push_back(nodes.tensor(8));
    nodes.add(i == 0 ? std::vector<Tensor>{} : std::vector<Tensor>{d[i - 1]}, d[i]);
  }
  for (int i = 0; i < 4; ++i) nodes.add({d[i]}, nodes.tensor());
  const std::vector<size_t> order = network::order_for_memory(nodes.graph(), nodes.before());
  const auto most_live = [&](const std::vector<size_t>& o) {
    const std::vector<int64_t> live = network::live_bytes(nodes.graph().lifetimes(o), o.size());
    return *std::max_element(live.begin(), live.end()) >> 10;
  };
  EXPECT_EQ(most_live(nodes.graph().order()), 33);
  EXPECT_LE(most_live(order), 18);
  std::vector<size_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (size_t n = 0; n < order.size(); ++n) {
    for (const size_t b : nodes.before()[n]) EXPECT_LT(place[b], place[n]);
  }
}

TEST(OrderForMemory, AnOrderThatSavesLittleIsNotTaken) {
  Nodes nodes;
  const Tensor a = nodes.tensor(100), b = nodes.tensor(), c = nodes.tensor();
  nodes.add({}, a);
  nodes.add({a}, b);
  nodes.add({b}, c);
  nodes.add({a}, nodes.tensor());
  EXPECT_THAT(network::order_for_memory(nodes.graph(), nodes.before()), ElementsAre(0, 1, 2, 3));
}

/// x -> a0 -> a1 -> ... -> an, and back: each step reads the one before and an activation.
struct There {
  Nodes nodes;
  std::vector<network::RepeatedNode> allowed;
  explicit There(int depth) {
    std::vector<Tensor> a;
    for (int i = 0; i < depth; ++i) {
      a.push_back(nodes.tensor());
      nodes.add(i == 0 ? std::vector<Tensor>{} : std::vector<Tensor>{a[i - 1]}, a[i]);
    }
    Tensor back = a.back();
    for (int i = depth - 2; i >= 0; --i) {
      const Tensor next = nodes.tensor();
      nodes.add({back, a[i]}, next);
      back = next;
    }
    allowed.resize(nodes.graph().nodes(), {1.0, true});
  }
  network::Recomputation within(int64_t kilobytes) const {
    const std::vector<char> none(nodes.graph().buffers());
    return network::recompute(nodes.graph(), allowed, kilobytes << 10, none, none);
  }
};

TEST(Recompute, AChainFitsIntoHalfForLessThanASecondPass) {
  const There there(16);
  const int64_t all = network::plan_memory(there.nodes.graph().lifetimes()).bytes;
  EXPECT_EQ(all, 17 << 10);
  const network::Recomputation half = there.within(9);
  EXPECT_TRUE(half.fits);
  EXPECT_LE(half.bytes, 9 << 10);
  EXPECT_GT(half.seconds, 0);
  EXPECT_LT(half.seconds, 16);
  const network::Recomputation same = there.within(17);
  EXPECT_EQ(same.seconds, 0);
  EXPECT_EQ(same.steps.size(), there.nodes.graph().nodes());
}

TEST(Recompute, WhatDoesNotFitSaysHowMuchWould) {
  const There there(16);
  const network::Recomputation tight = there.within(1);
  EXPECT_FALSE(tight.fits);
  EXPECT_TRUE(there.within(tight.bytes >> 10).fits);
}

TEST(Recompute, NothingRunsAgainBehindWhatOverwritesItsArguments) {
  There there(16);
  // The arguments of all nodes of the way there are overwritten where the way back begins.
  for (size_t n = 0; n < 16; ++n) there.allowed[n].until = 17;
  const network::Recomputation made = there.within(9);
  size_t first = 0;
  for (const network::RepeatableStep& step : made.steps) {
    if (step.again)
      EXPECT_LE(first, 17u);
    else
      first = step.node;
  }
  for (network::RepeatedNode& n : there.allowed) n.allowed = false;
  EXPECT_FALSE(there.within(16).fits);
}

/// A step of training: `blocks` layers with a residual sum.
struct Training {
  std::vector<Tensor> weights, args;
  std::vector<StateUpdate> updates;
  Tensor loss;

  explicit Training(int blocks) {
    const Tensor x = placeholder({32, 24}, f32, "x"), labels = placeholder({32}, i32, "labels");
    const auto weight = [&](Shape shape) {
      weights.push_back(placeholder(std::move(shape), f32, "w"));
      return weights.back();
    };
    Tensor h = x;
    for (int b = 0; b < blocks; ++b)
      h = ops::add(
          h, ops::tanh(ops::dense(ops::relu(ops::dense(h, weight({24, 24}))), weight({24, 24}))));
    loss = ops::softmax_cross_entropy(ops::dense(h, weight({10, 24})), labels);
    const std::vector<Tensor> d = gradient({loss}, weights);
    args = {x, labels};
    for (size_t i = 0; i < weights.size(); ++i) {
      const Tensor v = placeholder(weights[i].shape(), f32, "v");
      const ops::Momentum next = ops::sgd(weights[i], d[i], v, {.rate = 0.1, .momentum = 0.9});
      updates.insert(updates.end(), {{weights[i], next.parameter}, {v, next.velocity}});
    }
    for (const StateUpdate& u : updates) args.push_back(u.state);
    args.push_back(loss);
  }

  Network network(const std::string& passes) const {
    return Network({loss}, Target::host(), {}, parse_passes(passes), updates);
  }

  std::vector<NDArray> arrays() const {
    std::vector<NDArray> arrays = arrays_for(args);
    for (int64_t i = 0; i < 32; ++i) arrays[1].set(i, static_cast<double>(i % 10));
    return arrays;
  }

  /// The arrays after three steps.
  std::vector<NDArray> after_steps(const NetworkKernel& run) const {
    std::vector<NDArray> arrays = this->arrays();
    for (int n = 0; n < 3; ++n) run.call(arrays);
    return arrays;
  }
};

TEST(Recompute, ATrainingStepWithinLessMemoryComputesTheSameBits) {
  const Training step(6);
  const NetworkKernel usual = step.network("").build(step.args);
  const std::vector<NDArray> want = step.after_steps(usual);
  const int64_t limit = usual.workspace_bytes() * 6 / 10;
  const Network less = step.network("memory=" + std::to_string(limit));
  EXPECT_THAT(less.passes(), Contains(::testing::Field(&PassApplication::pass, "recompute")));
  EXPECT_EQ(less.tasks().size(), step.network("").tasks().size()) << "the kernels are the same";
  const NetworkKernel run = less.build(step.args);
  EXPECT_LE(run.workspace_bytes(), limit);
  const std::vector<NDArray> got = step.after_steps(run);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(allclose(got[i], want[i], 0, 0)) << i;
}

// A gelu costs next to nothing beside the products around it.
TEST(Recompute, LargeStepsComputeAgainWhatCostsNextToNothing) {
  const auto runs_again = [](int64_t rows, const std::string& passes) {
    constexpr int64_t kWidth = 256, kWide = 1024;
    const Tensor x = placeholder({rows, kWidth}, f32, "x");
    std::vector<Tensor> weights;
    Tensor h = x;
    for (int block = 0; block < 3; ++block) {
      weights.push_back(placeholder({kWide, kWidth}, f32, "up"));
      const Tensor wide = ops::gelu(ops::dense(h, weights.back()));
      weights.push_back(placeholder({kWidth, kWide}, f32, "down"));
      h = ops::add(h, ops::dense(wide, weights.back()));
    }
    const Tensor loss = ops::mean(ops::square(h), {0, 1});
    const std::vector<Tensor> d = gradient({loss}, weights);
    std::vector<StateUpdate> updates;
    for (size_t i = 0; i < weights.size(); ++i)
      updates.push_back({weights[i], ops::sub(weights[i], d[i])});
    const Network n({loss}, Target::host(), {}, parse_passes(passes), updates);
    return std::ranges::any_of(n.passes(), [](const auto& p) { return p.pass == "recompute"; });
  };
  EXPECT_TRUE(runs_again(1024, ""));
  EXPECT_FALSE(runs_again(1024, "memory=1G")) << "a limit that nothing exceeds";
  EXPECT_FALSE(runs_again(32, "")) << "small buffers";
}

TEST(Recompute, AnExportedStepComputesTheSameBits) {
  const Training step(6);
  const NetworkKernel usual = step.network("").build(step.args);
  const std::vector<NDArray> want = step.after_steps(usual);
  const int64_t limit = usual.workspace_bytes() * 6 / 10;
  const std::string folder =
      (std::filesystem::path(::testing::TempDir()) / ("heddle_step_" + std::to_string(::getpid())))
          .string();
  const ExportedNetwork written = export_network(step.network("memory=" + std::to_string(limit)),
                                                 step.args, folder, {.name = "step"});
  EXPECT_LE(written.arena_bytes, limit);
  {
    const ExportedLibrary loaded(written.library, "step");
    void* network = loaded.open(nullptr);
    ASSERT_NE(network, nullptr) << loaded.error();
    std::vector<NDArray> arrays = step.arrays();
    std::vector<const void*> inputs;
    for (size_t i = 0; i + 1 < arrays.size(); ++i) inputs.push_back(arrays[i].data());
    void* outputs[] = {arrays.back().data()};
    for (int n = 0; n < 3; ++n)
      ASSERT_EQ(loaded.run(network, inputs.data(), outputs), 0) << loaded.error();
    loaded.close(network);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(allclose(arrays[i], want[i], 0, 0)) << i;
  }
  std::filesystem::remove_all(folder);
}

TEST(Recompute, ChoicesKeepResultsOrComputeThemAgain) {
  const Training step(6);
  const int64_t limit = step.network("").build(step.args).workspace_bytes() * 8 / 10;
  const std::string less = "memory=" + std::to_string(limit);
  const auto recomputed = [&](const Network& network) {
    std::vector<std::string> names;
    for (const NetworkChoice& c : network.choices()) {
      if (c.name.starts_with("recompute@") && c.on) names.push_back(c.name);
    }
    return names;
  };
  const std::vector<std::string> usual = recomputed(step.network(less));
  ASSERT_FALSE(usual.empty());
  EXPECT_THAT(recomputed(step.network(usual[0])), ElementsAre(usual[0])) << "without a limit";
  const std::string kept = message_of([&] {
    EXPECT_THAT(recomputed(step.network(less + ",-" + usual[0])),
                ::testing::Not(Contains(usual[0])));
  });
  EXPECT_THAT(kept, ::testing::AnyOf(HasSubstr("nothing was thrown"), HasSubstr("do not fit")));
  EXPECT_EQ(to_string(parse_passes(less + "," + usual[0])), less + "," + usual[0]);
}

TEST(Recompute, ALimitThatCannotBeKeptIsAnErrorThatNamesOneThatCan) {
  const Training step(6);
  const std::string message = message_of([&] { (void)step.network("memory=1K"); });
  EXPECT_THAT(message, HasSubstr("do not fit into 1.00 KB"));
  const std::string allow = "allow at least ";
  const size_t at = message.find(allow);
  ASSERT_NE(at, std::string::npos) << message;
  EXPECT_NO_THROW((void)step.network(message.substr(at + allow.size())));
}

TEST(Recompute, NumbersOfBytesAreRead) {
  EXPECT_EQ(parse_passes("memory=64M").memory, 64 << 20);
  EXPECT_EQ(parse_passes("-join_products,memory=3K").memory, 3 << 10);
  for (const char* wrong : {"memory=", "memory=0", "memory=-1", "memory=1T", "memory=1.5M",
                            "memory=9999999999999G", "memory=M"})
    EXPECT_THAT(message_of([&] { (void)parse_passes(wrong); }), HasSubstr("is no number of bytes"))
        << wrong;
}

}  // namespace
}  // namespace heddle::testing
