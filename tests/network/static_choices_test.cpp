// The static choice is legal, and can be lowered, for networks of every floating-point type on
// every kind of target; where this machine runs the code, it computes what the interpreter does.
// HEDDLE_PROPERTY_COUNT and HEDDLE_PROPERTY_SEED as in tests/property.
#include "environment.h"
#include "heddle/codegen/emulator.h"
#include "heddle/lower/gpu_program.h"
#include "network/static_legality.h"
#include "network/typed_networks.h"

namespace heddle::testing {
namespace {

class StaticChoices : public ::testing::TestWithParam<DataType> {};

TEST_P(StaticChoices, OfNetworksAreLegalOnEveryTarget) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 8),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t seed = first; seed < first + count; ++seed) {
    for (const char* name : kStaticTargets) {
      Rng rng(static_cast<uint64_t>(seed));
      const std::vector<Tensor> outputs = TypedNetworkDrawer(rng, GetParam()).run();
      Target target = Target::parse(name);
      if (!target.is_cuda()) target.cores = rng.choose<int>({1, 2, 16});
      EXPECT_EQ(why_not_lowered(outputs, args_of(outputs), target), "")
          << to_string(target) << ", " << to_string(GetParam())
          << ", HEDDLE_PROPERTY_COUNT=1 HEDDLE_PROPERTY_SEED=" << seed;
    }
  }
}

TEST_P(StaticChoices, OfNetworksComputeWhatTheInterpreterDoes) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 8),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  const double tolerance = GetParam() == f32 ? 1e-3 : GetParam() == f16 ? 2e-2 : 1e-1;
  for (int64_t seed = first; seed < first + count; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const std::vector<Tensor> outputs = TypedNetworkDrawer(rng, GetParam()).run();
    EXPECT_EQ(wrong_network(outputs, tolerance), "")
        << to_string(GetParam()) << ", HEDDLE_PROPERTY_COUNT=1 HEDDLE_PROPERTY_SEED=" << seed;
  }
}

// The kernels of a GPU, run by the emulator.
TEST_P(StaticChoices, OfNetworksComputeOnGpusWhatTheInterpreterDoes) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 4),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  const Target target = Target::parse("cuda -gpu=h200");
  const double tolerance = GetParam() == f32 ? 1e-3 : GetParam() == f16 ? 2e-2 : 1e-1;
  for (int64_t seed = first; seed < first + count; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const std::vector<Tensor> outputs = TypedNetworkDrawer(rng, GetParam()).run();
    const std::vector<Tensor> args = args_of(outputs);
    const std::vector<NDArray> arrays = arrays_for(args);
    emulate(lower_gpu(create_schedule(outputs, target, {.use_records = false}), args), arrays);
    EXPECT_EQ(differs_from_interpreter(outputs, args, arrays, tolerance), "")
        << to_string(GetParam()) << ", HEDDLE_PROPERTY_COUNT=1 HEDDLE_PROPERTY_SEED=" << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StaticChoices, ::testing::Values(f32, f16, bf16),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace heddle::testing
