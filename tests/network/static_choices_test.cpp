// The static choice is legal, and can be lowered, for networks of every type on every kind of
// target; where this machine runs the code, it computes what the interpreter does.
#include "heddle/codegen/emulator.h"
#include "heddle/lower/gpu_program.h"
#include "network/drawn_networks.h"

namespace heddle::testing {
namespace {

double tolerance_of(DataType type) { return type == f32 ? 1e-3 : type == f16 ? 2e-2 : 1e-1; }

std::string type_name(const ::testing::TestParamInfo<DataType>& info) {
  return to_string(info.param);
}

class LegalChoices : public ::testing::TestWithParam<DataType> {};

TEST_P(LegalChoices, OfNetworksOnEveryTarget) {
  expect_nothing_wrong({.type = GetParam()}, [](const auto& outputs, const Target& target) {
    return why_not_lowered(outputs, args_of(outputs), target);
  });
}

TEST_P(LegalChoices, OfNetworksOfUsualSizesOnEveryTarget) {
  expect_nothing_wrong({.type = GetParam(), .count = 4, .sizes = Sizes::OfNetworks},
                       [](const auto& outputs, const Target& target) {
                         return why_not_lowered(outputs, args_of(outputs), target);
                       });
}

// Products of i8 are those of quantised networks.
INSTANTIATE_TEST_SUITE_P(Types, LegalChoices, ::testing::Values(f32, f16, bf16, i8), type_name);

class StaticChoices : public ::testing::TestWithParam<DataType> {};

TEST_P(StaticChoices, OfNetworksComputeWhatTheInterpreterDoes) {
  expect_nothing_wrong({.type = GetParam(), .targets = {Target::host()}},
                       [](const auto& outputs, const Target&) {
                         return wrong_network(outputs, tolerance_of(GetParam()));
                       });
}

// The kernels of a GPU, run by the emulator.
TEST_P(StaticChoices, OfNetworksComputeOnGpusWhatTheInterpreterDoes) {
  const NetworkDraws draws{
      .type = GetParam(), .targets = {Target::parse("cuda -gpu=h200")}, .count = 4};
  expect_nothing_wrong(draws, [](const auto& outputs, const Target& target) {
    const std::vector<Tensor> args = args_of(outputs);
    const std::vector<NDArray> arrays = arrays_for(args);
    emulate(lower_gpu(create_schedule(outputs, target, {.use_records = false}), args), arrays);
    return differs_from_interpreter(outputs, args, arrays, tolerance_of(GetParam()));
  });
}

INSTANTIATE_TEST_SUITE_P(Types, StaticChoices, ::testing::Values(f32, f16, bf16), type_name);

}  // namespace
}  // namespace heddle::testing
