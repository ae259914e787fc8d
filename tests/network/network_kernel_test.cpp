// Calls of a network: buffers, constants, mistakes, threads.
#include <thread>

#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

template <class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

// x -> four equal dense layers with a relu.
struct Stack {
  Tensor x = placeholder({4, 16}, f32, "x");
  std::vector<Tensor> w;
  Tensor y;
  Stack() {
    y = x;
    for (int i = 0; i < 4; ++i) {
      w.push_back(weights({16, 16}, "w" + std::to_string(i)));
      y = ops::relu(ops::matmul(y, w.back()));
    }
  }
  std::vector<Tensor> args() const { return {x, w[0], w[1], w[2], w[3], y}; }
};

TEST(NetworkKernel, BuffersWhoseLivesDoNotOverlapShareMemory) {
  const Stack s;
  const NetworkKernel run = Network({s.y}).build(s.args());
  // Three pass between four nodes; two are alive at a time.
  EXPECT_EQ(run.workspace_bytes(), 2 * 4 * 16 * 4);
}

TEST(NetworkKernel, OneNodeNeedsNoBuffers) {
  Tensor x = placeholder({4, 4}, f32, "x"), y = ops::relu(x);
  EXPECT_EQ(Network({y}).build({x, y}).workspace_bytes(), 0);
}

TEST(NetworkKernel, TakesArgumentsInTheOrderOfBuild) {
  const Stack s;
  const Network net({s.y});
  std::vector<Tensor> args{s.y, s.w[3], s.x, s.w[1], s.w[0], s.w[2]};
  const NetworkKernel run = net.build(args);
  std::vector<NDArray> arrays = arrays_for(args);
  run.call(arrays);
  EXPECT_EQ(differs_from_interpreter({s.y}, args, arrays), "");
  ASSERT_EQ(run.args().size(), 6u);
  EXPECT_TRUE(run.args()[0].output);
  EXPECT_TRUE(run.args()[1].constant);
  EXPECT_EQ(run.args()[2].name, "x");
}

TEST(NetworkKernel, EveryLayerKeepsItsOwnPreparedWeights) {
  const Stack s;
  const NetworkKernel run = Network({s.y}).build(s.args());
  std::vector<NDArray> arrays = arrays_for(s.args());
  run.call(arrays);
  const NDArray before = arrays[5].copy();
  // Were any layer to pack its weights again at the second call, it would see that they changed.
  std::vector<NDArray> saved;
  for (int i = 1; i <= 4; ++i) {
    saved.push_back(arrays[i].copy());
    arrays[i].fill(0.25);
  }
  run.call(arrays);
  EXPECT_TRUE(allclose(arrays[5], before));
  run.refresh();
  run.call(arrays);
  EXPECT_FALSE(allclose(arrays[5], before));
  EXPECT_EQ(differs_from_interpreter({s.y}, s.args(), arrays), "");
}

TEST(NetworkKernel, AcceptsSchedulesOfAnEqualDeclaration) {
  // Records replay on a declaration of the same structure, whose tensors are others.
  const Stack a, b;
  const Network net({a.y}), other({b.y});
  const NetworkKernel run = net.build(a.args(), other.static_schedules());
  std::vector<NDArray> arrays = arrays_for(a.args());
  run.call(arrays);
  EXPECT_EQ(differs_from_interpreter({a.y}, a.args(), arrays), "");
}

TEST(NetworkKernel, TakesTheSchedulesOfAReport) {
  const Stack s;
  const Network net({s.y});
  TuneReport report;
  for (const Schedule& schedule : net.naive_schedules()) {
    report.tasks.push_back({"task", {}, schedule, 2.0, 1.0, 10, 0, {}, {}, true});
  }
  const NetworkKernel run = net.build(s.args(), report);
  std::vector<NDArray> arrays = arrays_for(s.args());
  run.call(arrays);
  EXPECT_EQ(differs_from_interpreter({s.y}, s.args(), arrays), "");
  EXPECT_THAT(message_of([&] { net.build(s.args(), TuneReport{}); }),
              HasSubstr("1 tasks, but 0 schedules"));
}

TEST(NetworkKernel, SaysWhichSchedulesItWants) {
  const Stack s;
  const Network net({s.y}), other({digits_network()});
  EXPECT_THAT(message_of([&] { net.build(s.args(), other.static_schedules()); }),
              HasSubstr("the network has 1 tasks, but"));
  EXPECT_THAT(message_of([&] { net.build(s.args(), {other.static_schedules()[0]}); }),
              HasSubstr("schedule 0 is not for task"));
}

TEST(NetworkKernel, RefusesTensorsThatAreNotItsArguments) {
  const Stack s;
  const Network net({s.y});
  std::vector<Tensor> args = s.args();
  args.pop_back();
  EXPECT_THAT(message_of([&] { net.build(args); }), HasSubstr("is missing from the arguments"));
  args = s.args();
  args.push_back(s.x);
  EXPECT_THAT(message_of([&] { net.build(args); }), HasSubstr("'x' is listed twice"));
  args = s.args();
  args.push_back(placeholder({3}, f32, "stranger"));
  EXPECT_THAT(message_of([&] { net.build(args); }),
              HasSubstr("'stranger' is neither an input nor an output"));
  args = s.args();
  args[0] = Tensor();
  EXPECT_THAT(message_of([&] { net.build(args); }), HasSubstr("neither an input nor an output"));
}

TEST(NetworkKernel, ChecksArraysAsAKernelDoes) {
  const Stack s;
  const Network net({s.y});
  const NetworkKernel run = net.build(s.args());
  const Kernel kernel = build(create_schedule({s.y}), s.args(), {.name = "network"});
  const std::vector<NDArray> right = arrays_for(s.args());
  auto expect_same_message = [&](const std::vector<NDArray>& arrays, const char* part) {
    const std::string got = message_of([&] { run.call(arrays); });
    EXPECT_THAT(got, HasSubstr(part));
    EXPECT_EQ(got, message_of([&] { kernel.call(arrays); }));
  };
  std::vector<NDArray> arrays = right;
  arrays.pop_back();
  expect_same_message(arrays, "takes 6 arguments, but 5 were given");
  arrays = right;
  arrays[0] = NDArray::zeros({4, 15}, f32);
  expect_same_message(arrays, "argument 0 ('x') of kernel 'network' must have shape {4, 16}");
  arrays = right;
  arrays[1] = NDArray::zeros({16, 16}, f64);
  expect_same_message(arrays, "must be f32, but is f64");
  arrays = right;
  arrays[2] = NDArray();
  expect_same_message(arrays, "is no array");
  arrays = right;
  arrays[5] = arrays[0];
  expect_same_message(arrays, "overlap in memory");
  // And it still works.
  run.call(right);
  EXPECT_EQ(differs_from_interpreter({s.y}, s.args(), right), "");
  EXPECT_THAT(message_of([&] { NetworkKernel()(right[0]); }), HasSubstr("never built"));
}

TEST(NetworkKernel, TwoHostThreadsMayCallIt) {
  const Stack s;
  const NetworkKernel run = Network({s.y}).build(s.args());
  std::vector<std::string> wrong(2);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::vector<NDArray> arrays = arrays_for(s.args(), 100 * t + 1);
      for (int i = 0; i < 50 && wrong[t].empty(); ++i) {
        arrays[5].fill(77);
        run.call(arrays);
        wrong[t] = differs_from_interpreter({s.y}, s.args(), arrays);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong[0], "");
  EXPECT_EQ(wrong[1], "");
}

}  // namespace
}  // namespace heddle::testing
