// Products of one row with weights of few bits that a pass joins on a GPU: what they read is still the bits.
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

/// (columns, depth) of four bits and scales of blocks of 32; `zero` is the middle. As GGUF files have them, they are
/// f32 in a stage of their own.
Tensor unpacked(int64_t columns, int64_t depth, uint64_t seed, int zero, bool by_f32) {
  const Tensor bits = constant(NDArray::random({columns, depth / 2}, u8, seed, 0, 255), "bits"),
               scale =
                   constant(NDArray::random({columns, depth / 32}, bf16, seed + 1, 0.01, 0.1), "s");
  const DataType first = by_f32 ? f32 : bf16;
  const Tensor wide = compute({columns, depth}, [&](Axis n, Axis k) {
    const Expr number =
        bitwise_and(shift_right(cast(i32, bits(n, floordiv(k, 2))), cast(i32, floormod(k, 2)) * 4),
                    make_const(i32, 15));
    return cast(first, number - make_const(i32, zero)) * cast(first, scale(n, floordiv(k, 32)));
  });
  return by_f32 ? ops::cast(wide, bf16) : wide;
}

/// A nonlinear result of each, which no product has at its end.
std::vector<Tensor> heads(int last_zero, bool by_f32) {
  const Tensor x = placeholder({1, 256}, bf16, "x");
  std::vector<Tensor> out;
  int64_t columns = 64;
  for (const int zero : {8, 8, last_zero}) {
    const Tensor w = unpacked(columns, 256, static_cast<uint64_t>(columns), zero, by_f32);
    const Tensor y = ops::matmul(x, w, false, true, {.output = bf16});
    out.push_back(ops::softmax(ops::reshape(y, {columns / 16, 16})));
    columns = 32;
  }
  return out;
}

TEST(JoinedBits, AreReadAsBits) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Target gpu = Target::parse("cuda -gpu=h200");
  for (const auto& [last_zero, by_f32] : {std::pair{8, false}, {7, false}, {8, true}}) {
    SCOPED_TRACE(std::to_string(last_zero) + (by_f32 ? " by f32" : ""));
    const std::vector<Tensor> outputs = heads(last_zero, by_f32);
    const Network network(outputs, gpu);
    cuda::FakeDriver driver;
    const cuda::ScopedDriver scope(&driver.api());
    emulate_network(driver, network, gpu);
    std::vector<std::string> kept;
    for (const network::TaskVariants& task :
         network::task_variants(network, network.static_schedules()))
      for (const Schedule& s : task.schedules)
        for (const Buffer& b : lower_gpu(s, network::task_args(s)).persistent)
          if (b->dtype.is_float() && b->shape.size() == 2 && is_const(b->shape[1], 256))
            kept.push_back(b->name);
    EXPECT_THAT(kept, ::testing::IsEmpty()) << "unpacked once";
    const std::vector<Tensor> args = args_of(outputs);
    std::vector<NDArray> arrays = arrays_for(args, 1);
    network.build(args).call(arrays);
    EXPECT_EQ(differs_from_interpreter(outputs, args, arrays, 2e-2), "");
  }
}

}  // namespace
}  // namespace heddle::testing
