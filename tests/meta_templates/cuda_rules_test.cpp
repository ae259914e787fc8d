// The rules of the CUDA templates: the sources that may answer in their place, and the replay of
// old records.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "heddle/autodiff/gradient.h"
#include "heddle/codegen/emulator.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/family/schedule.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/ops.h"
#include "heddle/schedule/template.h"

namespace heddle {
namespace {

Template on_h200(const Tensor& output) {
  return make_template(ComputeDag({output}), Target::parse("cuda -gpu=h200"),
                       AutoSchedulerOptions());
}

const Knob& knob(const Template& t, const std::string& name) {
  const int i = t.knob_index(name);
  EXPECT_GE(i, 0) << name;
  return t.knobs().at(static_cast<size_t>(i));
}

// Says 64 threads for every reduction of rows.
class SixtyFourThreads : public ChoiceSource {
 public:
  std::string version() const override { return "64 threads"; }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    if (question.heuristic != "cuda_reduce_rows") return {};
    EXPECT_EQ(question.features.front().name, "extent");
    // Several rows of a block would have to be a warp each.
    return {Choice("a test")
                .set("threads", 64, "it says so")
                .set("rows_per_block", 1, "then")
                .set("cluster", 1, "then")};
  }
};

class Installed {
 public:
  explicit Installed(std::shared_ptr<const ChoiceSource> source)
      : before_(install_choice_source(std::move(source))) {}
  ~Installed() { install_choice_source(before_); }

 private:
  std::shared_ptr<const ChoiceSource> before_;
};

TEST(CudaRules, ASourceAnswersForKnobsWithAPrefixToo) {
  const Tensor rows = ops::sum(placeholder({4096, 1024}, f32, "X"), {1}),
               parts = ops::sum(placeholder({8, 1 << 20}, f32, "X"), {1});
  ASSERT_NE(knob(on_h200(rows), "threads").default_value, 64);
  ASSERT_NE(knob(on_h200(parts), "part_threads").default_value, 64);
  const Installed source(std::make_shared<SixtyFourThreads>());
  for (const auto& [output, name] : {std::pair{rows, "threads"}, {parts, "part_threads"}}) {
    const Template t = on_h200(output);
    EXPECT_EQ(knob(t, name).default_value, 64) << name;
    EXPECT_EQ(knob(t, name).source, "a test") << name;
    // What the source says nothing of stays the rule's.
    EXPECT_EQ(knob(t, name == std::string("threads") ? "unroll" : "part_unroll").source,
              Choice::kRule);
    EXPECT_EQ(t.why_invalid(t.default_config()), "") << name;
  }
}

// Heads beside each other become the row of a product.
Tensor product_of_heads(int64_t rows, int64_t size) {
  const Tensor heads = placeholder({8, rows, size}, f32, "heads"),
               w = placeholder({96, 8 * size}, f32, "w");
  const Tensor row = compute({rows, 8 * size}, [&](Axis i, Axis j) {
    return heads(floordiv(j, size), i, floormod(j, size));
  });
  return ops::matmul(row, w, false, true);
}

// Runs the static choice in the emulator beside the interpreter. Returns the number of kernels.
size_t kernels(const Tensor& y) {
  const std::vector<Tensor> args = ComputeDag({y}).placeholders();
  std::vector<Tensor> all = args;
  all.push_back(y);
  const GpuProgram program = lower_gpu(create_schedule({y}, Target::parse("cuda -gpu=h200")), all);
  std::vector<NDArray> arrays;
  std::vector<TensorValue> inputs;
  for (const Tensor& t : args) {
    arrays.push_back(NDArray::random(t.extents(), t.dtype(), 1));
    inputs.push_back({t, arrays.back()});
  }
  arrays.push_back(NDArray::zeros(y.extents(), y.dtype()));
  emulate(program, arrays);
  EXPECT_TRUE(allclose(arrays.back(), interpret({y}, inputs)[0], 1e-4, 1e-4));
  return program.main.size();
}

TEST(CudaRules, SumsOfRowsAreRightHoweverTheyAreShared) {
  const auto sum = [](int64_t rows, int64_t cols) {
    return ops::sum(placeholder({rows, cols}, f32, "X"), {1});
  };
  EXPECT_EQ(kernels(sum(3, 20001)), 1u) << "clusters of blocks";
  EXPECT_EQ(kernels(sum(6500, 40)), 1u) << "eight rows of a block";
  EXPECT_EQ(kernels(sum(300, 2823)), 1u) << "elements that are read singly";
}

TEST(CudaRules, AProductOfOneRowReadsThroughVectorsThatMove) {
  EXPECT_EQ(kernels(product_of_heads(1, 64)), 1u);
  EXPECT_EQ(kernels(product_of_heads(1, 6)), 2u) << "its vectors have elements of two heads";
}

// Few threads can share a strip of a few columns, so long ones are cut however small they are.
TEST(CudaRules, LongColumnsAreCutHoweverFew) {
  const auto split = [](int64_t rows, int64_t columns) {
    const Template t = on_h200(ops::sum(placeholder({rows, columns}, f32, "X"), {0}));
    const int i = t.knob_index("split_reduction");
    return i >= 0 && t.knobs().at(static_cast<size_t>(i)).default_value == 1;
  };
  EXPECT_TRUE(split(47722, 5));
  EXPECT_TRUE(split(4096, 2));
  EXPECT_TRUE(split(256, 8));
  EXPECT_FALSE(split(64, 16));
  EXPECT_FALSE(split(128, 512));
  EXPECT_FALSE(split(4096, 100000));  // blocks enough
}

Tensor product(int64_t m, int64_t n, int64_t k, DataType type) {
  return ops::matmul(placeholder({m, k}, type, "A"), placeholder({k, n}, type, "B"));
}

// No tile of a whole warp fits these results.
TEST(CudaRules, FewResultsOfALongSumAreCutIntoParts) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{2, 4, 14273}, {3, 5, 1512}, {4, 7, 8192}, {2, 6, 17752}}) {
    const Template t = on_h200(product(m, n, k, f32));
    const auto value = [&, &t = t](const char* name) { return knob(t, name).default_value; };
    EXPECT_EQ(value("reduction"), 1) << m << "x" << n << "x" << k;
    EXPECT_EQ(value("row_threads") * value("col_threads"), 32) << m << "x" << n << "x" << k;
    EXPECT_LE(value("k_part") * 8, k) << m << "x" << n << "x" << k;
    EXPECT_EQ(t.why_invalid(t.default_config()), "");
  }
}

TEST(CudaRules, SumsOverSeveralAxesFillTheMachine) {
  const auto blocks = [](const Tensor& y) {
    AutoSchedulerOptionsScope rules({.use_records = false});
    const Schedule s = create_schedule({y}, Target::parse("cuda -gpu=h200"));
    std::vector<Tensor> args = s.dag().placeholders();
    args.push_back(y);
    const GpuProgram g = lower_gpu(s, args);
    int64_t most = 0;
    for (const GpuKernel& k : g.main) most = std::max(most, k.grid[0] * k.grid[1] * k.grid[2]);
    return most;
  };
  for (const int64_t side : {7, 14, 56}) {
    EXPECT_GE(blocks(ops::sum(placeholder({32, 256, side, side}, f32, "x"), {0, 2, 3})), 100)
        << side;
    EXPECT_GE(blocks(ops::sum(placeholder({32, side, side, 256}, f32, "x"), {0, 1, 2})), 100)
        << side;
  }
  ops::Conv same{.padding = {1, 1}};
  same.layout = ops::NHWC;
  const Tensor x = placeholder({64, 28, 28, 128}, f16, "x"),
               w = placeholder({3, 3, 1, 128}, f16, "w"),
               head = placeholder({64, 28, 28, 128}, f16, "head");
  EXPECT_GE(blocks(gradient({ops::depthwise_conv2d(x, w, same)}, {w}, {head})[0]), 100);
}

TEST(CudaRules, StepsNeedNotDivideTheDepth) {
  for (const int64_t depth : {812, 1620, 92, 297}) {
    const Template t = on_h200(product(8, 512, depth, f32));
    EXPECT_GE(knob(t, "tile_k").default_value, 16) << depth;
  }
}

// Tiles of an operand with rows of an odd number of elements come element by element, and nothing
// hides their latency. More blocks do.
TEST(CudaRules, OddRowsAreSharedByMoreBlocks) {
  const auto parts = [](int64_t cols) {
    const Template t = on_h200(product(400, cols, 1024, bf16));
    return knob(t, "reduction").default_value == 1 ? 1024 / knob(t, "k_part").default_value : 1;
  };
  EXPECT_GT(parts(371), parts(372));
}

// Many rows of 32 to 63 vectors have a warp each, and not the fewest lanes that may share a row.
TEST(CudaRules, ManyShortRowsMakeLargerBlocks) {
  const auto of = [](int64_t rows, int64_t cols, DataType dtype) {
    return knob(on_h200(ops::sum(placeholder({rows, cols}, dtype, "X"), {1})), "rows_per_block")
        .default_value;
  };
  EXPECT_EQ(of(174134, 192, f32), 8);
  EXPECT_EQ(of(9248, 144, f32), 8);
  EXPECT_EQ(of(142874, 65, bf16), 16);
  EXPECT_EQ(of(2000, 192, f32), 4) << "each multiprocessor needs some blocks";
  EXPECT_EQ(of(108707, 512, f32), 4) << "a block of four rows has enough to read";
}

TEST(CudaRules, RowsThatAreReadSinglyHaveFewerThreads) {
  const auto of = [](int64_t rows, int64_t cols) {
    return knob(on_h200(ops::sum(placeholder({rows, cols}, f32, "X"), {1})), "threads")
        .default_value;
  };
  EXPECT_EQ(of(4096, 4096), 256);
  EXPECT_EQ(of(12317, 2823), 256);
  EXPECT_EQ(of(595, 4097), 512);
}

TEST(CudaRules, FewLongRowsAreSharedByBlocks) {
  const auto shares = [](int64_t rows, int64_t cols) {
    const Template t = on_h200(ops::sum(placeholder({rows, cols}, f32, "X"), {1}));
    EXPECT_EQ(t.why_invalid(t.default_config()), "");
    return std::pair(knob(t, "cluster").default_value, knob(t, "threads").default_value);
  };
  EXPECT_EQ(shares(7, 32768), std::pair(int64_t{8}, int64_t{2048}));
  EXPECT_EQ(shares(3, 50517), std::pair(int64_t{8}, int64_t{8192}));
  EXPECT_EQ(shares(7, 16384).first, 1) << "a block has the row in four vectors a thread";
  EXPECT_EQ(shares(400, 32768).first, 1) << "rows enough";
}

TEST(CudaRules, RowsOfAFewVectorsHaveAWarp) {
  for (const int64_t n : {33, 45, 63, 66, 156, 204}) {
    const Template t = on_h200(ops::softmax(placeholder({4096, n}, f16, "x")));
    EXPECT_EQ(knob(t, "threads").default_value, 32) << n;
  }
}

// The windows of three channels come element by element, and the depth of 27 has one tile, so that
// nothing hides their latency. Many threads with few elements each do.
TEST(CudaRules, FirstConvolutionsOfOneImageHaveFewElementsAThread) {
  for (const int64_t height : {224, 160}) {
    const Tensor image = placeholder({1, height, height, 3}, f16, "X");
    const Tensor filters = placeholder({3, 3, 3, 32}, f16, "W");
    const Template t = on_h200(
        ops::conv2d(image, filters, {.stride = {2, 2}, .padding = {1, 1}, .layout = ops::NHWC}));
    const auto value = [&](const char* name) { return knob(t, name).default_value; };
    const int64_t warps = value("row_warps") * value("col_warps");
    EXPECT_LE(16 * value("row_tiles") * value("row_warps") * 32, 16 * 32 * warps) << height;
  }
}

// What erf needs beside many accumulators would be spilled.
TEST(CudaRules, SlowResultsLeaveRegisters) {
  const auto accumulators = [](const Tensor& output) {
    const Template t = on_h200(output);
    EXPECT_EQ(knob(t, "unit").default_value, 1);
    return knob(t, "group_tiles").default_value * knob(t, "group_cols").default_value / 2;
  };
  const Tensor sums = product(4096, 3072, 768, f16);
  EXPECT_GT(accumulators(sums), 128);
  EXPECT_LE(accumulators(ops::gelu(sums)), 128);
}

TEST(CudaRules, NarrowResultsOfAShortDepthAreNotForWarpGroups) {
  const auto unit = [](int64_t cols, int64_t depth) {
    return knob(on_h200(product(401408, cols, depth, f16)), "unit").default_value;
  };
  EXPECT_EQ(unit(16, 32), 0);
  EXPECT_EQ(unit(64, 64), 1);
}

// With few steps the stores decide, which turns hide. A part of a step is slow to load.
TEST(CudaRules, WarpGroupsTakeTurnsFromOneWholeStepOn) {
  const auto turns = [](const Tensor& y) { return knob(on_h200(y), "group_turns").default_value; };
  EXPECT_EQ(turns(product(6272, 384, 64, f16)), 1);
  EXPECT_EQ(turns(product(100352, 144, 24, f16)), 0);
  EXPECT_EQ(turns(ops::gelu(product(6272, 384, 64, f16))), 0);
}

TEST(CudaRules, WarpGroupsMultiplyTf32Together) {
  const Tensor a = placeholder({4096, 4096}), b = placeholder({4096, 4096});
  const Template t = make_template(ComputeDag({ops::matmul(a, b, false, true)}),
                                   Target::parse("cuda -gpu=h200"), {.allow_tf32 = true});
  EXPECT_EQ(knob(t, "unit").default_value, 1);
  EXPECT_EQ(knob(t, "group_turns").default_value, 0);
}

// Where an SM has one block, a second tile is loaded while the first one is multiplied.
TEST(CudaRules, AShortDepthHasTwoTiles) {
  EXPECT_EQ(knob(on_h200(product(128, 512, 64, bf16)), "tile_k").default_value, 2);
  EXPECT_EQ(knob(on_h200(product(1000, 5000, 64, bf16)), "tile_k").default_value, 4);
}

TEST(CudaRules, ImagesForFewFiltersAreCopiedToo) {
  for (const int64_t filters : {8, 16, 24}) {
    ops::Conv attributes;
    attributes.padding = {2};
    const Tensor y = ops::conv2d(placeholder({1, 128, 56, 56}, f16, "x"),
                                 constant_placeholder({filters, 128, 5, 5}, f16, "w"), attributes);
    EXPECT_EQ(knob(on_h200(y), "channels_last").default_value, 1) << filters;
  }
}

// A copy with channels innermost gains where it is read by vectors, and where no more is copied than is read.
TEST(CudaRules, ImagesAreCopiedWhereThatHelpsLoads) {
  const auto copied = [](int64_t channels, int64_t window, int64_t stride) {
    ops::Conv attributes;
    attributes.padding = {window / 2};
    attributes.stride = {stride};
    const Tensor y =
        ops::conv2d(placeholder({1, channels, 33, 33}, f16, "x"),
                    constant_placeholder({64, channels, window, window}, f16, "w"), attributes);
    return knob(on_h200(y), "channels_last").default_value;
  };
  EXPECT_EQ(copied(128, 3, 1), 1);
  EXPECT_EQ(copied(255, 3, 1), 0) << "rows of odd lengths are read singly in the copy too";
  EXPECT_EQ(copied(128, 1, 2), 0) << "a quarter of the image is read";
}

TEST(CudaRules, FewResultsHaveMoreTilesInRotation) {
  EXPECT_EQ(knob(on_h200(product(16, 640, 1264, bf16)), "stages").default_value, 5);
  EXPECT_EQ(knob(on_h200(product(2048, 2048, 1264, bf16)), "stages").default_value, 4);
}

TEST(CudaRules, ConfigsMayNameTheWayToReduceAsTheyUsedTo) {
  for (const DataType type : {f32, bf16}) {
    const Template t = on_h200(
        ops::matmul(placeholder({64, 8192}, type, "A"), placeholder({8192, 64}, type, "B")));
    const auto config = [&](const char* json) { return t.config_from_json(Json::parse(json)); };
    EXPECT_EQ(config(R"({"mode": 1})"), config(R"({"reduction": "split_k"})"));
    EXPECT_EQ(config(R"({"mode": 0})"), config(R"({"reduction": "whole"})"));
    // Few results and a deep reduction: the rule cuts it.
    EXPECT_EQ(knob(t, "reduction").text_of(knob(t, "reduction").default_value), "split_k");
  }
}

}  // namespace
}  // namespace heddle
