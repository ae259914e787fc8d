// Contractions on CPUs: the axis that is read by vectors, and that every config is correct.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/ops/ops.h"
#include "meta_templates/expect_right.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

struct Image {
  int64_t channels, size, filters;
  bool relu = false;
};

// A 1x1 convolution, NCHW, whose weights are constant.
selftest::RandomProgram pointwise(const Image& f) {
  selftest::RandomProgram p;
  p.inputs = {placeholder({1, f.channels, f.size, f.size}, f32, "X"),
              constant_placeholder({f.filters, f.channels, 1, 1}, f32, "W")};
  const Tensor conv = ops::conv2d(p.inputs[0], p.inputs[1], {});
  p.outputs = {f.relu ? ops::relu(conv) : conv};
  p.reduce_length = f.channels;
  p.text = "pointwise " + std::to_string(f.channels) + " " + std::to_string(f.size) + " " +
           std::to_string(f.filters);
  return p;
}

Target avx2() { return Target::parse("llvm -mcpu=haswell -threads=2"); }

std::string schedule_text(const selftest::RandomProgram& p) {
  const Template t = make_template(ComputeDag(p.outputs), avx2());
  return t.instantiate(t.default_config()).to_text();
}

// Which operand is read by vectors, among other notes.
std::string template_text(const selftest::RandomProgram& p) {
  return make_template(ComputeDag(p.outputs), avx2()).to_text();
}

TEST(Contraction, ChannelsAreTheVectorsOfAnImageOfOneVector) {
  EXPECT_THAT(schedule_text(pointwise({128, 7, 64})), HasSubstr("conv2d.vectorize(i1"));
  EXPECT_THAT(schedule_text(pointwise({128, 28, 64})), HasSubstr("conv2d.vectorize(i3"));
  // Too little work for results that are stored one by one.
  EXPECT_THAT(schedule_text(pointwise({16, 7, 64})), HasSubstr("conv2d.vectorize(i3"));
}

// A convolution in NCHW whose rows are shorter than the batch is large.
TEST(Contraction, RowsOfATileLieSideBySideInImagesOfABatch) {
  selftest::RandomProgram p;
  ops::Conv at;
  at.padding = {1};
  at.stride = {2};
  p.inputs = {placeholder({16, 8, 14, 14}, f32, "X"),
              constant_placeholder({32, 8, 3, 3}, f32, "W")};
  p.outputs = {ops::conv2d(p.inputs[0], p.inputs[1], at)};
  p.reduce_length = 72;
  EXPECT_THAT(schedule_text(p), HasSubstr("conv2d.local.unroll(i3)"));
  EXPECT_THAT(schedule_text(p), ::testing::Not(HasSubstr("conv2d.local.unroll(i0)")));
  expect_right(p, 40, 8);
}

// A convolution in NCHW whose window slides along the rows of the image.
selftest::RandomProgram sliding(DataType t, int64_t channels, int64_t window, int64_t stride,
                                int64_t filters) {
  selftest::RandomProgram p;
  ops::Conv at;
  at.padding = {window / 2};
  at.stride = {stride};
  p.inputs = {placeholder({1, channels, 11, 19}, t, "X"),
              constant_placeholder({filters, channels, window, window}, t, "W")};
  p.outputs = {ops::conv2d(p.inputs[0], p.inputs[1], at)};
  p.reduce_length = channels * window * window;
  p.text = "sliding " + to_string(t) + " " + std::to_string(channels) + " " +
           std::to_string(window) + " " + std::to_string(stride) + " " + std::to_string(filters);
  return p;
}

TEST(Contraction, AnImageUnderAWindowIsCopiedWithItsChannelsInnermost) {
  for (const auto& [window, stride] : {std::pair<int64_t, int64_t>{3, 2}, {5, 1}, {1, 2}}) {
    const std::string text =
        schedule_text(sliding(f32, 64, window, stride, window == 1 ? 256 : 32));
    EXPECT_THAT(text, HasSubstr("conv2d.local.vectorize(i1")) << window;
    EXPECT_THAT(text, HasSubstr(".copy.layout(d0, d2, d3, d1)")) << window;
  }
  // A quarter of the image, and few filters that use it.
  EXPECT_THAT(schedule_text(sliding(f32, 64, 1, 2, 32)),
              ::testing::Not(HasSubstr(".copy.layout(d0, d2, d3, d1)")));
  // Three channels lie near each other as they are.
  const std::string few = schedule_text(sliding(f32, 3, 7, 2, 32));
  EXPECT_THAT(few, HasSubstr("conv2d.local.vectorize(i1"));
  EXPECT_THAT(few, ::testing::Not(HasSubstr(".copy.layout(d0, d2, d3, d1)")));
}

TEST(Contraction, AnyLayoutOfAnImageIsRight) {
  uint64_t seed = 50;
  for (const DataType t : {f32, i8, f16}) {
    expect_right(sliding(t, 33, 3, 2, 20), ++seed, 8);
    expect_right(sliding(t, 16, 5, 1, 33), ++seed, 8);
    expect_right(sliding(t, 70, 1, 2, 17), ++seed, 8);
    expect_right(sliding(t, 3, 7, 2, 40), ++seed, 8);
  }
}

// Stores of whole lines: the last stores are transposed squares.
bool stages_results(const selftest::RandomProgram& p, const Target& target) {
  return chosen(make_template(ComputeDag(p.outputs), target), "stage_results") == 1;
}

TEST(Contraction, ResultsInPlanesAreStoredByWholeLines) {
  const Target avx512 = Target::parse("llvm -mcpu=skylake-avx512 -threads=2");
  EXPECT_TRUE(stages_results(sliding(f32, 64, 3, 2, 32), avx2()));
  EXPECT_FALSE(stages_results(sliding(f32, 64, 3, 2, 32), avx512))
      << "ten pixels, less than a vector";
  EXPECT_TRUE(stages_results(sliding(f32, 64, 5, 1, 32), avx512));
  // Vectors lie along the rows of the image.
  EXPECT_FALSE(stages_results(pointwise({128, 28, 64}), avx512));
}

// With what is added to each filter and what clamps the sums, in the copy that is stored.
TEST(Contraction, StagedResultsAreRight) {
  uint64_t seed = 90;
  for (const auto& [stride, filters] : {std::pair<int64_t, int64_t>{1, 33}, {2, 48}}) {
    selftest::RandomProgram p;
    ops::Conv at;
    at.padding = {1};
    at.stride = {stride};
    p.inputs = {placeholder({2, 40, 7, 37}, f32, "X"),
                constant_placeholder({filters, 40, 3, 3}, f32, "W"),
                constant_placeholder({filters}, f32, "B")};
    p.outputs = {ops::relu(ops::conv2d(p.inputs[0], p.inputs[1], at, p.inputs[2]))};
    p.reduce_length = 360;
    p.text = "staged " + std::to_string(stride) + " " + std::to_string(filters);
    EXPECT_TRUE(stages_results(p, avx2())) << p.text;
    expect_right(p, ++seed, 10);
  }
}

TEST(Contraction, PatchesOfFewChannelsHaveVectorsOfFilters) {
  ops::Conv at;
  at.stride = {4};
  selftest::RandomProgram p;
  p.inputs = {placeholder({1, 3, 40, 72}, f32, "X"), constant_placeholder({48, 3, 4, 4}, f32, "W")};
  p.outputs = {ops::conv2d(p.inputs[0], p.inputs[1], at)};
  p.reduce_length = 48;
  p.text = "patches";
  EXPECT_THAT(template_text(p), HasSubstr("vectors from W"));
  expect_right(p, 7, 8);
}

TEST(Contraction, TheWindowOfAPointwiseConvolutionHidesNothing) {
  // The image can be packed, and the reduction that is unrolled is the one over channels.
  const std::string text = schedule_text(pointwise({128, 28, 64}));
  EXPECT_THAT(text, HasSubstr("conv2d.local.split(rc, 4)"));
  const Template t = make_template(ComputeDag(pointwise({128, 28, 64}).outputs), avx2());
  std::vector<std::string> names;
  for (const Knob& k : t.knobs()) names.push_back(k.name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"pack_vectors", "pack_broadcasts"}));
}

TEST(Contraction, AnImageThatNothingIsBroadcastToIsNotPacked) {
  ops::Conv at;
  at.layout = ops::NHWC;
  at.padding = {1};
  const Tensor x = placeholder({1, 28, 28, 144}, f32, "X");
  const Tensor y = ops::depthwise_conv2d(x, constant_placeholder({3, 3, 1, 144}, f32, "W"), at);
  const Template t = make_template(ComputeDag({y}), avx2());
  EXPECT_THAT(t.name(), HasSubstr("complex_reduction"));
  EXPECT_EQ(t.knob_index("pack_vectors"), -1);
}

// A convolution in NCHW of four groups.
selftest::RandomProgram grouped(int64_t filters) {
  selftest::RandomProgram p;
  ops::Conv at;
  at.padding = {1};
  at.groups = 4;
  p.inputs = {placeholder({1, 8, 12, 40}, f32, "X"),
              constant_placeholder({filters, 2, 3, 3}, f32, "W")};
  p.outputs = {ops::conv2d(p.inputs[0], p.inputs[1], at)};
  p.reduce_length = 18;
  p.text = "grouped " + std::to_string(filters);
  return p;
}

TEST(Contraction, ATileOfFiltersStaysInItsGroup) {
  for (const int64_t members : {2, 4, 6, 8}) {
    const selftest::RandomProgram p = grouped(4 * members);
    const Template t = make_template(ComputeDag(p.outputs), avx2());
    const int64_t rows = t.default_config().values.at(t.knob_index("tile_rows"));
    EXPECT_EQ(members % rows, 0) << rows << " rows of groups of " << members;
    EXPECT_GT(rows, 1);
    expect_right(p, 5, 6);
  }
}

// A convolution with groups.
selftest::RandomProgram grouped(ops::Layout layout, int64_t groups, int64_t channels,
                                int64_t filters, DataType t = f32) {
  const bool last = layout == ops::Layout::ChannelsLast;
  ops::Conv at;
  at.padding = {1};
  at.groups = groups;
  at.layout = layout;
  const int64_t all = groups * channels, k = groups * filters;
  selftest::RandomProgram p;
  p.inputs = {last ? placeholder({1, 9, 10, all}, t, "X") : placeholder({1, all, 9, 10}, t, "X"),
              last ? constant_placeholder({3, 3, channels, k}, t, "W")
                   : constant_placeholder({k, channels, 3, 3}, t, "W")};
  p.outputs = {ops::relu(ops::conv2d(p.inputs[0], p.inputs[1], at))};
  p.reduce_length = 9 * channels;
  p.text = "grouped " + std::to_string(last) + " " + std::to_string(groups) + " " +
           std::to_string(channels) + " " + std::to_string(filters) + " " + to_string(t);
  return p;
}

TEST(Contraction, AnImageIsBroadcastToTheVectorsOfItsGroup) {
  const Target avx512 = Target::parse("llvm -mcpu=znver5 -threads=1");
  for (const ops::Layout layout : {ops::Layout::ChannelsLast, ops::Layout::ChannelsFirst}) {
    const Template t = make_template(ComputeDag(grouped(layout, 2, 64, 128).outputs), avx512);
    // As many accumulators as a convolution without groups has, and not those of a depthwise one.
    EXPECT_GT(chosen(t, "tile_rows") * chosen(t, "tile_cols"), 8 * 16);
    EXPECT_EQ(128 % chosen(t, "tile_cols"), 0);
  }
  // A tile of 2 vectors would cross a group of 3, and a whole vector one of 24.
  for (const int64_t filters : {48, 24}) {
    const ComputeDag odd(grouped(ops::Layout::ChannelsLast, 2, 32, filters).outputs);
    EXPECT_EQ(filters % chosen(make_template(odd, avx512), "tile_cols"), 0);
  }
}

TEST(Contraction, GroupsAreRightInAnyConfig) {
  uint64_t seed = 1;
  for (const ops::Layout layout : {ops::Layout::ChannelsLast, ops::Layout::ChannelsFirst}) {
    for (const auto& [groups, channels, filters] : std::vector<std::array<int64_t, 3>>{
             {2, 8, 32}, {3, 5, 48}, {2, 16, 16}, {4, 3, 64}, {2, 64, 20}, {3, 4, 24}})
      expect_right(grouped(layout, groups, channels, filters), ++seed, 5);
  }
  expect_right(grouped(ops::Layout::ChannelsLast, 2, 8, 64, bf16), ++seed, 6);
}

// A convolution with a stride along rows whose channels are innermost, and results in planes.
selftest::RandomProgram rows_to_planes(int64_t channels, int64_t filters, int64_t stride) {
  selftest::RandomProgram p;
  p.inputs = {placeholder({2, 41, channels}, f32, "X"),
              constant_placeholder({filters, channels, 5}, f32, "W")};
  const Axis c = reduce_axis(channels, "c"), r = reduce_axis(5, "r");
  p.outputs = {compute(
      {2, filters, (41 - 5) / stride + 1},
      [&](Axis n, Axis k, Axis l) {
        return sum(p.inputs[0](n, l * stride + r, c) * p.inputs[1](k, c, r), {c, r});
      },
      "conv1d")};
  p.reduce_length = channels * 5;
  p.text = "rows to planes " + std::to_string(channels) + " " + std::to_string(filters) + " " +
           std::to_string(stride);
  return p;
}

// Products of matrices, the innermost axis of whose results is one of the batch.
selftest::RandomProgram batch_innermost(int64_t rows, int64_t cols, int64_t depth, int64_t batch) {
  selftest::RandomProgram p;
  p.inputs = {placeholder({rows, batch, depth}, f32, "A"),
              placeholder({cols, batch, depth}, f32, "B")};
  const Axis k = reduce_axis(depth, "k");
  p.outputs = {compute(
      {rows, cols, batch},
      [&](Axis i, Axis j, Axis h) { return sum(p.inputs[0](i, h, k) * p.inputs[1](j, h, k), k); },
      "einsum")};
  p.reduce_length = depth;
  p.text = "batch innermost " + std::to_string(rows) + " " + std::to_string(cols) + " " +
           std::to_string(depth) + " " + std::to_string(batch);
  return p;
}

TEST(Contraction, LoadsThatWouldGatherTakeAnotherVectorAxis) {
  EXPECT_THAT(schedule_text(rows_to_planes(128, 64, 2)), HasSubstr("conv1d.local.vectorize(i1"));
  EXPECT_THAT(schedule_text(rows_to_planes(128, 64, 1)), HasSubstr("conv1d.local.vectorize(i1"));
  EXPECT_THAT(schedule_text(batch_innermost(32, 64, 48, 16)), HasSubstr("einsum.vectorize(i1"));
  EXPECT_THAT(schedule_text(batch_innermost(32, 8, 48, 16)), HasSubstr("einsum.vectorize(i0"));
}

TEST(Contraction, AnotherVectorAxisIsRightInAnyConfig) {
  uint64_t seed = 1;
  for (const int64_t stride : {1, 2, 3}) expect_right(rows_to_planes(19, 40, stride), ++seed, 5);
  expect_right(rows_to_planes(64, 33, 2), ++seed, 5);
  for (const auto& [rows, cols, depth, batch] : std::vector<std::array<int64_t, 4>>{
           {7, 40, 12, 16}, {40, 5, 33, 9}, {33, 35, 8, 20}, {3, 64, 5, 8}})
    expect_right(batch_innermost(rows, cols, depth, batch), ++seed, 6);
}

TEST(Contraction, AShortWindowAlongTheVectorsIsUnrolledWhole) {
  const auto unrolled = [](const selftest::RandomProgram& p) {
    const Template t = make_template(ComputeDag(p.outputs), avx2());
    return t.default_config().values.at(t.knob_index("unroll_k"));
  };
  EXPECT_EQ(unrolled(sliding(f32, 3, 3, 1, 16)), 3);
  EXPECT_EQ(unrolled(sliding(f32, 3, 5, 1, 16)), 5);
  EXPECT_EQ(unrolled(sliding(f32, 3, 7, 1, 16)), 2);
}

// Rows of a tile share what they read of a window: where the window is the innermost loop, it is
// unrolled, and accumulators leave registers for what is shared.
TEST(Contraction, AWindowThatRowsShareIsUnrolledBesideFewerAccumulators) {
  const auto choices = [](int64_t channels, int64_t r) {
    ops::Conv at;
    at.layout = ops::NHWC;
    at.stride = {2};
    const Tensor x = placeholder({1, 56, 56, channels}, f32, "X");
    const Tensor y = ops::conv2d(x, constant_placeholder({r, r, channels, 64}, f32, "W"), at);
    const Template t = make_template(ComputeDag({y}), avx2());
    return std::vector<int64_t>{chosen(t, "unroll_k"),
                                chosen(t, "tile_rows") * chosen(t, "tile_cols") / 8};
  };
  EXPECT_EQ(choices(3, 7), (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(choices(1, 5), (std::vector<int64_t>{5, 8}));
  EXPECT_EQ(choices(3, 9)[0], 2) << "too long to be copied so often";
  EXPECT_EQ(choices(64, 7)[0], 4) << "channels are the innermost loop";
  EXPECT_GT(choices(64, 7)[1], 8);
}

// A tile of rows that shares no image with the next one has all of its columns first; and what is
// read in place, not as a padded copy.
TEST(Contraction, PlanesOfGroupsAreReadOneAfterAnother) {
  const auto choices = [](int64_t groups, int64_t size, ops::Layout layout) {
    ops::Conv at;
    at.layout = layout;
    at.padding = {1};
    at.groups = groups;
    const int64_t c = 128;
    const bool last = layout == ops::NHWC;
    const Tensor x =
        placeholder(last ? Shape{1, size, size, c} : Shape{1, c, size, size}, f32, "X");
    const Tensor w = constant_placeholder(
        last ? Shape{3, 3, c / groups, c} : Shape{c, c / groups, 3, 3}, f32, "W");
    const Template t = make_template(ComputeDag({ops::conv2d(x, w, at)}), avx2());
    return std::vector<int64_t>{chosen(t, "row_block_tiles") * chosen(t, "tile_rows"),
                                chosen(t, "s1.location")};
  };
  EXPECT_EQ(choices(32, 56, ops::NCHW), (std::vector<int64_t>{4, -1}));
  EXPECT_EQ(choices(8, 28, ops::NCHW)[1], 0) << "many vectors of short rows lie across a bound";
  EXPECT_EQ(choices(8, 28, ops::NHWC)[1], 1) << "what a block reads lies together";
  EXPECT_EQ(choices(1, 28, ops::NHWC)[1], 0) << "read by all filters";
}

// Which tile, in vectors of 8, of a depthwise 3x3 in NHWC on a core with 512 KiB of L2.
std::string depthwise_tile(int64_t channels, int64_t size, int64_t stride) {
  ops::Conv at;
  at.layout = ops::NHWC;
  at.padding = {1};
  at.stride = {stride};
  const Tensor x = placeholder({1, size, size, channels}, f32, "X");
  const Tensor y = ops::depthwise_conv2d(x, placeholder({3, 3, 1, channels}, f32, "W"), at);
  const Template t = make_template(ComputeDag({y}), Target::parse("llvm -mcpu=znver3 -threads=2"));
  return std::to_string(chosen(t, "tile_rows")) + "x" + std::to_string(chosen(t, "tile_cols") / 8);
}

TEST(Contraction, LongRunsOfAnImageThatMemoryBounds) {
  EXPECT_EQ(depthwise_tile(96, 112, 2), "2x4");   // two multiply-adds an element
  EXPECT_EQ(depthwise_tile(128, 112, 1), "2x4");  // 6 MB
  // What L3 keeps is worth reuse of the weights, and so is what L2 keeps whatever the stride.
  EXPECT_EQ(depthwise_tile(144, 56, 1), "4x2");
  EXPECT_EQ(depthwise_tile(72, 56, 2), "4x2");
  EXPECT_EQ(depthwise_tile(16, 224, 2), "4x2");  // two vectors are all there are
}

// How many rows of the image a block of a 1x1 convolution in NHWC has.
int64_t image_rows(const char* target, int64_t channels, int64_t size) {
  ops::Conv at;
  at.layout = ops::NHWC;
  const Tensor x = placeholder({1, size, size, channels}, f32, "X");
  const Tensor y = ops::conv2d(x, constant_placeholder({1, 1, channels, 64}, f32, "W"), at);
  return chosen(make_template(ComputeDag({y}), Target::parse(target)), "other_block");
}

TEST(Contraction, BlocksOfAnImageShareEvenly) {
  EXPECT_EQ(image_rows("llvm -mcpu=znver3 -threads=1", 256, 56), 12);
  // Not 10: three blocks of 10 for one thread, 26 rows for the other.
  EXPECT_EQ(image_rows("llvm -mcpu=znver3 -threads=2", 256, 56), 7);
  EXPECT_EQ(image_rows("llvm -mcpu=znver3 -threads=4", 256, 56), 7);
  EXPECT_EQ(image_rows("llvm -mcpu=znver3 -threads=2", 256, 14), 7);
  // A prime: blocks as they fit, for no even share is worth blocks of one row.
  EXPECT_GT(image_rows("llvm -mcpu=znver3 -threads=2", 256, 59), 4);
}

// Exponentials of rows that fill few lanes are computed for all rows first, unless threads share the rows.
TEST(RowGroups, ShortRowsThatOneThreadHasAreComputedFirst) {
  const auto first = [](int64_t rows, int64_t cols, const char* target) {
    const Tensor x = placeholder({rows, cols}, f32, "x");
    const Template t = make_template(ComputeDag({ops::softmax(x, 1)}), Target::parse(target));
    return std::ranges::any_of(t.knobs(), [&](const Knob& k) {
      return k.name.ends_with("location") && chosen(t, k.name.c_str()) == 0;
    });
  };
  EXPECT_TRUE(first(2000, 16, "llvm -mcpu=znver4 -threads=1"));
  EXPECT_TRUE(first(100, 16, "llvm -mcpu=znver4 -threads=2")) << "little work";
  EXPECT_FALSE(first(5000, 16, "llvm -mcpu=znver4 -threads=2"));
  EXPECT_FALSE(first(2000, 200, "llvm -mcpu=znver4 -threads=1"));
}

// A sum of few results goes to both threads in parts, one of more results where it is longer than its panels stay near.
TEST(Contraction, LongSumsOfFewResultsAreCut) {
  const auto cut = [](int64_t m, int64_t n, int64_t k) {
    const Tensor y = ops::matmul(placeholder({m, k}, f32, "A"), placeholder({k, n}, f32, "B"));
    const Template t =
        make_static_template(ComputeDag({y}), Target::parse("llvm -mcpu=emeraldrapids -threads=2"));
    return t.instantiate(t.default_config()).to_text().find("rfactor") != std::string::npos ||
           !t.dag().alternative().empty();
  };
  EXPECT_TRUE(cut(16, 64, 2048));
  EXPECT_FALSE(cut(16, 64, 1536));
  EXPECT_TRUE(cut(64, 64, 2048));
  EXPECT_FALSE(cut(96, 96, 2048)) << "more results are shared out as they are";
  EXPECT_TRUE(cut(128, 128, 6000)) << "its panels leave the second cache";
}

TEST(Contraction, ATranspositionIsPackedFromItsSource) {
  // Its rows lie across lines of memory; the copy takes the transposition in.
  selftest::RandomProgram p;
  p.inputs = {placeholder({160, 40}, f32, "A"), placeholder({160, 300}, f32, "B")};
  p.outputs = {ops::matmul(ops::transpose(p.inputs[0]), p.inputs[1])};
  p.reduce_length = 160;
  p.text = "matmul of a transposition";
  const std::string text = schedule_text(p);
  EXPECT_THAT(text, HasSubstr("transpose.cache_read(matmul.local) -> transpose.copy"));
  EXPECT_THAT(text, HasSubstr("transpose.compute_inline()"));
  expect_right(p, 7, 8);
}

TEST(Contraction, HeadsAreTakenApartWhileTheyArePacked) {
  // Scores of activations with the heads inside, as a layer's dense products leave them.
  selftest::RandomProgram p;
  p.inputs = {placeholder({48, 256}, f32, "Q"), placeholder({48, 256}, f32, "K")};
  auto heads = [](const Tensor& x) { return ops::reshape(x, {48, 8, 32}); };
  p.outputs = {ops::batch_matmul(ops::transpose(heads(p.inputs[0]), {1, 0, 2}),
                                 ops::transpose(heads(p.inputs[1]), {1, 2, 0}))};
  p.reduce_length = 32;
  p.text = "scores";
  const std::string text = schedule_text(p);
  // One head at a time, by squares of registers: its vectors lie along the reduction.
  EXPECT_THAT(text, HasSubstr("transpose#5.copy.compute_at(batch_matmul"));
  EXPECT_THAT(text, HasSubstr("transpose#5.copy.split(i1, 8)"));
  expect_right(p, 8, 8);
}

selftest::RandomProgram one_row(bool constant, int64_t n, int64_t k) {
  selftest::RandomProgram p;
  const Tensor x = placeholder({1, k}, f32, "x");
  const Tensor w =
      constant ? constant_placeholder({n, k}, f32, "W") : placeholder({n, k}, f32, "W");
  p.inputs = {x, w};
  p.outputs = {ops::dense(x, w)};
  p.reduce_length = k;
  p.text = "one row";
  return p;
}

TEST(Contraction, OneRowTimesConstantWeightsNeedsNoSumAcrossLanes) {
  const char* packed = "W.copy.layout(";
  EXPECT_THAT(schedule_text(one_row(true, 100, 37)), HasSubstr(packed));
  EXPECT_THAT(schedule_text(one_row(true, 100000, 32)), HasSubstr(packed));
  // Weights that memory bounds, and those that other calls have changed, are read as they lie.
  EXPECT_THAT(schedule_text(one_row(true, 8192, 8192)), ::testing::Not(HasSubstr(packed)));
  EXPECT_THAT(schedule_text(one_row(false, 100, 37)), ::testing::Not(HasSubstr(packed)));
  expect_right(one_row(true, 100, 37), 8, 8);
  // A transposition of weights is never read by strides.
  selftest::RandomProgram p = one_row(true, 8192, 8192);
  p.outputs = {ops::matmul(p.inputs[0], ops::transpose(p.inputs[1], {1, 0}))};
  EXPECT_THAT(schedule_text(p), HasSubstr(".copy.layout("));
}

selftest::RandomProgram attention(int64_t heads, int64_t l, int64_t d) {
  selftest::RandomProgram p;
  for (const char* name : {"q", "k", "v"})
    p.inputs.push_back(placeholder({heads, l, d}, f32, name));
  p.outputs = {ops::scaled_dot_product_attention(p.inputs[0], p.inputs[1], p.inputs[2])};
  p.reduce_length = l + d;
  p.text = "attention";
  return p;
}

TEST(Contraction, AttentionGoesThroughTheCachesABlockOfRowsAtATime) {
  const selftest::RandomProgram p = attention(4, 200, 16);
  auto schedule = [&](int64_t l2, int cores = avx2().cores) {
    Target t = avx2();
    t.l2_bytes = l2;
    t.cores = cores;
    const Template tmpl = make_template(ComputeDag(p.outputs), t);
    return tmpl.instantiate(tmpl.default_config()).to_text();
  };
  const std::string blocks = schedule(256 << 10);
  EXPECT_THAT(blocks, HasSubstr("attention.split(i1, 54)"));  // 9 tiles of 6 rows
  for (const char* stage :
       {"attention_scores", "softmax_max", "softmax_exp", "softmax_sum", "softmax_scale"})
    EXPECT_THAT(blocks, HasSubstr(std::string(stage) + ".compute_at(attention, i0.i1.o")) << stage;
  // All scores stay in the cache: one parallel loop serves all stages, where threads have rows
  // enough.
  const char* in_blocks = "attention_scores.compute_at(attention, i0.i1.o";
  EXPECT_THAT(schedule(8 << 20), HasSubstr(in_blocks));
  EXPECT_THAT(schedule(8 << 20, 64), ::testing::Not(HasSubstr(in_blocks)));
  // The keys and values of a head do not fit the cache.
  EXPECT_THAT(schedule(16 << 10), ::testing::Not(HasSubstr(in_blocks)));
}

// Rows of scores that are cut into blocks along the last product leave no loop that all of a row's
// stages could share: these are at the root then.
TEST(Contraction, AttentionOfAnyLengthHasAStaticChoice) {
  for (const int64_t length : {512, 2048, 8192}) {
    for (const char* cpu : {"haswell", "skylake-avx512", "znver3"}) {
      const selftest::RandomProgram p = attention(2, length, 64);
      const Template t =
          make_template(ComputeDag(p.outputs), Target::parse(std::string("llvm -mcpu=") + cpu));
      EXPECT_EQ(t.why_invalid(t.default_config()), "") << length << " rows for " << cpu;
    }
  }
}

TEST(Contraction, AttentionIsRightInAnyConfig) {
  AutoSchedulerOptions options;
  options.l2_bytes = 64 << 10;
  const AutoSchedulerOptionsScope scope(options);
  expect_right(attention(3, 70, 8), 9, 12);
  expect_right(attention(1, 130, 24), 10, 12);
}

TEST(Contraction, EitherIsRightInAnyConfig) {
  uint64_t seed = 1;
  for (const Image& image : {Image{96, 7, 40}, Image{70, 5, 33, true}, Image{64, 8, 24},
                             Image{24, 14, 20, true}, Image{65, 3, 130}}) {
    expect_right(pointwise(image), seed++, 12);
  }
}

}  // namespace
}  // namespace heddle::testing
