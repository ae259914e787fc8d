// Kernels over sizes read weights in one layout: for one row the kernel for several runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "family/size_points.h"
#include "heddle/heddle.h"
#include "network/cut/task_schedules.h"
#include "network/network_testing.h"
#include "network/sizes_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Product {
  Dim rows = dim("rows", 1, 300);
  Tensor x = placeholder({rows, 80}, f32, "x");
  Tensor w = constant(NDArray::random({80, 96}, f32, 3), "w");
  Axis k = reduce_axis(80, "k");
  Tensor y =
      compute({rows, 96}, [&](Axis i, Axis j) { return sum(x(i, k) * w(k, j), k); }, "product");

  Network with_l2(int64_t bytes) const {
    Target target = Target::host();
    target.cores = 1;
    target.l2_bytes = bytes;
    return Network({y}, target);
  }
};

TEST(SharedWeights, OneRowRunsTheKernelForSeveralWhereTheWeightsExceedL2) {
  const Product p;
  const Network large = p.with_l2(8 << 20), small = p.with_l2(8 << 10);
  EXPECT_THAT(large.tasks()[0].name, HasSubstr("rows = 1"));
  EXPECT_THAT(small.tasks()[0].name, Not(HasSubstr("rows = 1")));
  EXPECT_EQ(small.tasks().size() + 1, large.tasks().size());
  EXPECT_THAT(small.to_text(), HasSubstr("rows 1 to "));
  const NetworkKernel kernel = small.build({p.x, p.y});
  for (const int64_t n : {1, 2, 6, 7, 8, 9, 46, 300})
    EXPECT_EQ(wrong_at(kernel, {p.y}, {p.x, p.y}, {{p.rows, n}}), "") << n;
  // Tiles of columns may be padded to whole vectors.
  EXPECT_LT(kernel.build_report().prepared_bytes, 2 * 80 * 96 * 4);
}

// Several rows read weights that were unpacked once, four times the bytes that one row unpacks in registers.
TEST(SharedWeights, OneRowUnpacksBitsWhereOthersReadMoreBytes) {
  const Dim rows = dim("rows", 1, 300);
  const Tensor x = placeholder({rows, 512}, f32, "x"),
               bits = constant(NDArray::random({96, 512}, u8, 3, 0, 255), "bits"),
               scale = constant(NDArray::random({96, 16}, f32, 4, 0.01, 0.1), "scale");
  const Tensor w = compute({96, 512}, [&](Axis n, Axis k) {
    return cast(f32, cast(i32, bits(n, k)) - 128) * scale(n, floordiv(k, 32));
  });
  const Axis k = reduce_axis(512, "k");
  const Tensor y =
      compute({rows, 96}, [&](Axis i, Axis j) { return sum(x(i, k) * w(j, k), k); }, "product");
  Target target = Target::parse("llvm -mcpu=sapphirerapids -threads=1");
  target.l2_bytes = 8 << 10;
  for (const bool approximate : {false, true}) {
    AutoSchedulerOptions options;
    options.allow_approximate = approximate;
    const Network net({y}, target, options);
    EXPECT_THAT(net.tasks()[0].name, HasSubstr("rows = 1")) << approximate;
    const std::string how = net.static_schedules()[0].dag().alternative();
    EXPECT_EQ(how.starts_with("dynamic_quantization"), approximate) << how;
  }
}

TEST(SharedWeights, ADroppedPointGivesItsSizesToTheNext) {
  const Product p;
  const std::vector<Var> sizes = sizes_of({p.y});
  family::SizePoints points =
      family::size_points({p.y}, sizes, family::usual_spacing(Target::host()));
  const auto chosen_at = [&](int64_t rows) {
    const int at = variant_at(points.tree, std::vector<int64_t>{rows});
    return points.points.at(static_cast<size_t>(at)).at(0).value;
  };
  ASSERT_EQ(points.points.size(), 4U);
  const int64_t second = chosen_at(2), third = chosen_at(second + 1);
  EXPECT_EQ(chosen_at(1), 1);
  EXPECT_TRUE(family::drop_point(points, 0));
  EXPECT_EQ(chosen_at(1), second);
  EXPECT_EQ(chosen_at(300), 300);
  EXPECT_TRUE(family::drop_point(points, 0));
  EXPECT_EQ(chosen_at(2), third);
  EXPECT_FALSE(family::drop_point(points, 1)) << "nothing is left for its sizes";
  EXPECT_EQ(points.points.size(), 2U);
}

// Of 16 cores each would read 64 bytes of a row; of two half of it.
TEST(SharedWeights, WeightsOfWhichCoresReadNarrowStripsAreTransposed) {
  const std::vector<Tensor> outputs{ops::relu(linear(placeholder({1, 384}, f32, "x"), 256))};
  const auto on = [&](const std::string& threads) {
    return Network(outputs, Target::parse("llvm -mcpu=native -l2=16K -threads=" + threads));
  };
  const Network many = on("16");
  const auto transposes = [](const Network& network) {
    return std::ranges::count(network.passes(), "transpose_weights", &PassApplication::pass) > 0;
  };
  EXPECT_TRUE(transposes(many));
  EXPECT_FALSE(transposes(on("1")));
  EXPECT_FALSE(transposes(Network(outputs, Target::parse("llvm -mcpu=native -l2=1M -threads=16"))));
  const Schedule schedule = many.static_schedules()[0];
  EXPECT_TRUE(lower(schedule, network::task_args(schedule), {.name = "node"}).prepare.body);
  const std::vector<Tensor> args = args_of(outputs);
  std::vector<NDArray> arrays = arrays_for(args);
  many.build(args).call(arrays);
  EXPECT_EQ(differs_from_interpreter(outputs, args, arrays), "");
}

}  // namespace
}  // namespace heddle::testing
