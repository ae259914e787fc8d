// Networks whose constants have values: called without them, prepared ahead, profiled.
#include "heddle/support/json.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

// Three equal layers, each with weights of its own.
struct Layers {
  Tensor x = placeholder({4, 16}, f32, "x");
  std::vector<NDArray> values;
  std::vector<Tensor> weights;
  Tensor y = x;
  NDArray in = random_like(x, 1);

  explicit Layers(bool with_values) {
    for (int i = 0; i < 3; ++i) {
      const std::string name = "w" + std::to_string(i);
      values.push_back(NDArray::random({16, 16}, f32, static_cast<uint64_t>(i) + 5));
      weights.push_back(with_values ? constant(values.back(), name)
                                    : constant_placeholder({16, 16}, f32, name));
      y = ops::relu(ops::matmul(y, weights.back()));
    }
  }
  NDArray wanted() const {
    std::vector<TensorValue> inputs{{x, in}};
    for (size_t i = 0; i < values.size(); ++i) inputs.push_back({weights[i], values[i]});
    return interpret({y}, inputs)[0];
  }
};

TEST(BoundNetwork, IsCalledWithoutItsConstants) {
  const Layers l(true);
  const Network net({l.y});
  EXPECT_EQ(net.tasks().size(), 1u);  // three nodes, one kernel
  const NetworkKernel run = net.build({l.x, l.y});
  EXPECT_EQ(run.args().size(), 2u);
  const NDArray out = zeros_like(l.y);
  run(l.in, out);
  EXPECT_TRUE(allclose(out, l.wanted(), 1e-4, 1e-5));
  // A listed one is passed.
  const NetworkKernel passed = net.build({l.weights[1], l.x, l.y});
  passed(l.values[1], l.in, out);
  EXPECT_TRUE(allclose(out, l.wanted(), 1e-4, 1e-5));
  passed(zeros_like(l.values[1]), l.in, out);
  EXPECT_EQ(max_abs_diff(out, zeros_like(out)), 0);
}

TEST(BoundNetwork, IsPreparedAheadOfItsFirstCall) {
  const Layers l(true);
  const NetworkKernel run = Network({l.y}).build({l.x, l.y});
  const NDArray want = l.wanted(), out = zeros_like(l.y);
  run.prepare();
  for (const NDArray& w : l.values) w.fill(0);  // the packed ones are there already
  run(l.in, out);
  EXPECT_TRUE(allclose(out, want, 1e-4, 1e-5));
  run.refresh();
  run(l.in, out);
  EXPECT_EQ(max_abs_diff(out, zeros_like(out)), 0);
}

TEST(BoundNetwork, PrepareTakesTheConstantsThatHaveNoValues) {
  const Layers l(false);
  const std::vector<Tensor> args{l.x, l.weights[0], l.weights[1], l.weights[2], l.y};
  const NetworkKernel run = Network({l.y}).build(args);
  EXPECT_THAT(message_of([&] { run.prepare(); }), HasSubstr("its constant 'w0'"));
  EXPECT_THAT(message_of([&] {
                run.prepare(std::vector<NDArray>{l.in, NDArray(), l.values[1], l.values[2], l.in});
              }),
              HasSubstr("argument 1 ('w0')"));
  const NDArray want = l.wanted(), out = zeros_like(l.y);
  run.prepare(std::vector<NDArray>{NDArray(), l.values[0], l.values[1], l.values[2], NDArray()});
  for (const NDArray& w : l.values) w.fill(0);
  run(l.in, l.values[0], l.values[1], l.values[2], out);
  EXPECT_TRUE(allclose(out, want, 1e-4, 1e-5));
}

TEST(BoundNetwork, ItsProfileHasARowANode) {
  const Layers l(true);
  const NetworkKernel run = Network({l.y}).build({l.x, l.y});
  const NDArray out = zeros_like(l.y);
  const Profile profile = run.profile({l.in, out}, 0.05);
  EXPECT_TRUE(allclose(out, l.wanted(), 1e-4, 1e-5));
  ASSERT_EQ(profile.rows.size(), 3u);
  double shares = 0;
  for (const ProfileRow& row : profile.rows) {
    EXPECT_THAT(row.name, HasSubstr("matmul+relu"));
    EXPECT_GT(row.in_network_s, 0);
    EXPECT_GT(row.alone_s, 0);
    EXPECT_GT(row.cold_s, 0);
    EXPECT_GT(row.flops, 0);
    shares += row.share;
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_THAT(profile.to_string(), HasSubstr("3 nodes"));
  EXPECT_EQ(profile.to_json().at("nodes").size(), 3u);
}

}  // namespace
}  // namespace heddle::testing
