// The program of an exported library as JSON and back, with all that kernels for GPUs and sizes need.
#include "runtime/exported/program.h"

#include <gtest/gtest.h>

#include "heddle/support/error.h"

namespace heddle {
namespace {

using cuda::SizeExpr;

SizeExpr halves() {
  return {{{SizeExpr::Op::Size, 0}, {SizeExpr::Op::Constant, 2}, {SizeExpr::Op::FloorDiv, 0}}};
}

ExportedProgram sample() {
  auto gpu = std::make_shared<cuda::Program>();
  gpu->arch = "sm_90a";
  gpu->workspaces = {{4096, true}};
  cuda::Launch launch{
      .kernel = "main", .grid = {64, 1, 1}, .block = {256, 1, 1}, .buffers = {0, 2, 3}};
  launch.dynamic_smem = 70000;
  launch.cluster = 2;
  launch.overlaps = true;
  launch.sizes = {0};
  launch.grid_of[0] = halves();
  cuda::TensorMap map{.buffer = 1, .element_bytes = 2, .shape = {128, 64}, .row_dim = 1, .rows = 8};
  map.windows = {{3, 2, -1}};
  map.shape_of = {halves(), {{{SizeExpr::Op::Constant, 64}}}};
  launch.maps = {map};
  gpu->launches = {launch};
  gpu->prepare = {{.kernel = "pack", .buffers = {1, 2}}};

  ExportedProgram p{.name = "net", .target = "cuda"};
  p.features = {"avx2"};
  p.args = {{.name = "x \"1\"\n", .dtype = f16, .shape = {-1, 8}, .alignment = 16},
            {.name = "y", .dtype = f32, .shape = {-1}, .output = true}};
  p.args[0].symbolic = {{.dim = 0, .constant = -1, .terms = {{0, 4}, {1, 2}}}};
  p.sizes = {{"n", 8, 64, 8}, {"n", 1, 9, 1}};  // two dimensions of one name
  p.kernels = {{.name = "dense", .args = 2, .gpu = gpu, .constants = {1}, .prepared_bytes = {512}},
               {.name = "relu", .args = 2}};
  p.steps = {
      {.variants = {{0, {{ProgramPlace::Argument, 0}, {ProgramPlace::Array, 0}}},
                    {1, {{ProgramPlace::Arena, 64}, {ProgramPlace::Size, 1}}}},
       .selector =
           SizeTree{{.feature = 1, .yes = 1, .no = 2, .at_most = 4}, {.yes = 0}, {.yes = 1}}},
      {.variants = {{1, {{ProgramPlace::Array, 0}, {ProgramPlace::Nothing, 0}}}}}};
  p.turns = {{.even = {ProgramPlace::Arena, 0},
              .odd = {ProgramPlace::Arena, 64},
              .first = {ProgramPlace::Arena, 128},
              .row_bytes = {16, {0, 4}},
              .back = 1,
              .reverse = true}};
  p.loops = {{0, 1, {0, {1}}}};
  p.arrays = {{64, 512}};
  p.arena_bytes = 4096;
  p.weights_bytes = 576;
  p.weights_hash = 0xfedcba9876543210U;
  p.check_weights = false;
  return p;
}

TEST(ExportedProgram, IsReadAsItWasWritten) {
  const std::string text = to_json(sample()).dump();
  const ExportedProgram read = exported_program_from_json(Json::parse(text));
  EXPECT_EQ(to_json(read).dump(), text);
  const cuda::Launch& launch = read.kernels[0].gpu->launches[0];
  EXPECT_EQ(launch.grid_of[0].items.size(), 3U);
  EXPECT_TRUE(launch.grid_of[1].items.empty());
  EXPECT_EQ(launch.maps[0].shape_of[1].items[0].value, 64);
  EXPECT_EQ(launch.maps[0].windows[0].first, -1);
  EXPECT_EQ(launch.sizes, std::vector<int>{0});
  EXPECT_EQ(read.kernels[1].gpu, nullptr);
  EXPECT_EQ(read.kernels[0].constants, std::vector<int>{1});
  EXPECT_EQ(read.args[0].symbolic[0].terms[1].factor, 2);
  EXPECT_EQ(read.weights_hash, sample().weights_hash);
  ASSERT_EQ(read.turns.size(), 1U);
  EXPECT_EQ(read.turns[0].first.at, 128);
  EXPECT_EQ(read.turns[0].last.where, ProgramPlace::Nothing);
  EXPECT_EQ(read.turns[0].row_bytes.at(std::vector<int64_t>{8, 3}), 28);
  EXPECT_TRUE(read.turns[0].reverse && read.turns[0].back == 1);
  EXPECT_EQ(read.loops[0].turns.at(std::vector<int64_t>{8, 3}), 8);
  const auto variant = [&](int64_t second) {
    return read.steps[0].selector.at(std::vector<int64_t>{8, second});
  };
  EXPECT_EQ(variant(4), 0u);
  EXPECT_EQ(variant(5), 1u);
  EXPECT_EQ(read.steps[1].selector.at({}), 0u) << "one leaf";
}

TEST(ExportedProgram, TreesThatNameNoVariantAreErrors) {
  ExportedProgram p = sample();
  p.steps[0].selector = SizeTree{{.yes = 2}};
  EXPECT_THROW(exported_program_from_json(to_json(p)), Error);
}

}  // namespace
}  // namespace heddle
