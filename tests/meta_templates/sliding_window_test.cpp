// Depthwise convolutions and pooling on a GPU: channels first and last, strides, dilation, padding,
// sizes that divide no tile, epilogues. The emulator's results of the kernel equal the
// interpreter's.
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/ops/ops.h"
#include "meta_templates/emulated_schedule.h"

namespace heddle::testing {
namespace {

struct Form {
  DataType type = f16;
  ops::Layout layout = ops::Layout::ChannelsLast;
  int64_t n = 2, c = 8, h = 9, w = 11, r = 3, stride = 1, pad = 1, dilation = 1;
  bool relu = false;
};

selftest::RandomProgram depthwise(const Form& f) {
  selftest::RandomProgram p;
  const bool last = f.layout == ops::Layout::ChannelsLast;
  const auto input = [&](const Shape& shape, const char* name) {
    p.inputs.push_back(placeholder(shape, f.type, name));
    return p.inputs.back();
  };
  const Tensor x = last ? input({f.n, f.h, f.w, f.c}, "x") : input({f.n, f.c, f.h, f.w}, "x");
  const Tensor weight =
      last ? input({f.r, f.r, 1, f.c}, "weight") : input({f.c, 1, f.r, f.r}, "weight");
  Tensor y = ops::depthwise_conv2d(
      x, weight,
      {.stride = {f.stride}, .padding = {f.pad}, .dilation = {f.dilation}, .layout = f.layout},
      input({f.c}, "bias"));
  if (f.relu) y = ops::relu(y);
  p.outputs = {y};
  p.reduce_length = f.r * f.r;
  p.text = to_string(f.type) + (last ? " NHWC " : " NCHW ") + std::to_string(f.c) + " channels " +
           std::to_string(f.h) + "x" + std::to_string(f.w) + " filter " + std::to_string(f.r) +
           " stride " + std::to_string(f.stride) + " dilation " + std::to_string(f.dilation);
  return p;
}

// An image whose channels are innermost, unless the layout is another.
selftest::RandomProgram pool(bool average, DataType type, int64_t c, int64_t h, int64_t w,
                             ops::Pool how, ops::Layout layout = ops::Layout::ChannelsLast) {
  how.layout = layout;
  selftest::RandomProgram p;
  const bool last = layout == ops::Layout::ChannelsLast;
  p.inputs = {placeholder(
      last ? std::vector<int64_t>{2, h, w, c} : std::vector<int64_t>{2, c, h, w}, type, "x")};
  p.outputs = {average ? ops::avg_pool(p.inputs[0], how) : ops::max_pool(p.inputs[0], how)};
  p.reduce_length = 16;
  p.text = to_string(type) + (average ? " average of " : " maximum of ") + std::to_string(c) +
           " channels " + std::to_string(h) + "x" + std::to_string(w);
  return p;
}

// The static choice, and some random configs.
void check_right(const selftest::RandomProgram& p, int configs = 2) {
  const AutoSchedulerOptionsScope scope(options());
  const Template t = make_template(ComputeDag(p.outputs), h200());
  ASSERT_GE(t.knob_index("tile_x"), 0) << p.text << " is scheduled by another template";
  check_emulated(p, t.instantiate(t.default_config()));
  Rng rng(7);
  for (int i = 0; i < configs; ++i) {
    const Config c = selftest::random_config(t, rng);
    SCOPED_TRACE(t.config_to_json(c).dump());
    check_emulated(p, t.instantiate(c));
  }
}

void check(const Form& f) { check_right(depthwise(f)); }

TEST(Depthwise, ChannelsLast) {
  check({});
  check({.type = f32, .c = 12, .h = 7, .w = 5});
  check({.type = bf16, .c = 6, .h = 10, .w = 10, .stride = 2});
  check({.c = 16, .h = 12, .w = 9, .r = 5, .pad = 2, .relu = true});
  check({.c = 3, .h = 9, .w = 9, .pad = 0});
  check({.c = 8, .h = 11, .w = 12, .pad = 2, .dilation = 2});
}

TEST(Depthwise, ChannelsFirst) {
  const ops::Layout first = ops::Layout::ChannelsFirst;
  check({.layout = first});
  check({.type = f32, .layout = first, .c = 3, .h = 7, .w = 8, .relu = true});
  check({.layout = first, .c = 4, .h = 12, .w = 16, .stride = 2});
  check({.layout = first, .c = 4, .h = 9, .w = 14, .r = 5, .pad = 2});
  check({.layout = first, .c = 2, .h = 11, .w = 12, .pad = 2, .dilation = 2});
}

// Windows beyond the registers of a thread are loaded row by row.
TEST(Depthwise, LargeWindows) {
  const ops::Layout first = ops::Layout::ChannelsFirst;
  check({.c = 8, .h = 9, .w = 10, .r = 7, .pad = 3, .relu = true});
  check({.type = f32, .c = 4, .h = 8, .w = 7, .r = 7, .pad = 3});
  check({.c = 8, .h = 9, .w = 9, .r = 8, .stride = 2, .pad = 3});
  check({.type = bf16, .c = 8, .h = 11, .w = 9, .r = 5, .pad = 4, .dilation = 2});
  check({.layout = first, .c = 2, .h = 12, .w = 16, .r = 7, .pad = 3});
}

// The tile of the static choice: lanes, tile_x, tile_y.
std::vector<int64_t> chosen_tile(const Form& f) {
  const Template t = make_template(ComputeDag(depthwise(f).outputs), h200());
  const Config c = t.default_config();
  std::vector<int64_t> tile;
  for (const char* knob : {"lanes", "tile_x", "tile_y"})
    tile.push_back(c.values[static_cast<size_t>(t.knob_index(knob))]);
  return tile;
}

// Guards of tiles that leave a rest cost more than short tiles, and a vector has 16 bytes at most.
TEST(Depthwise, TilesOfChannelsInnermostFitTheImage) {
  const AutoSchedulerOptionsScope scope(options());
  for (const DataType type : {f16, f32}) {
    for (const int64_t size : {14, 28, 56}) {
      for (const int64_t r : {3, 5, 7}) {
        const std::vector<int64_t> tile = chosen_tile(
            {.type = type, .n = 32, .c = 384, .h = size, .w = size, .r = r, .pad = r / 2});
        EXPECT_EQ(size % tile[1], 0) << to_string(type) << " " << size << " " << r;
        EXPECT_EQ(size % tile[2], 0) << to_string(type) << " " << size << " " << r;
        EXPECT_LE(tile[0] * type.bytes(), 16) << size << " " << r;
      }
    }
  }
}

// A small image is cut into more threads.
TEST(Depthwise, FewPointsHaveSmallTiles) {
  const AutoSchedulerOptionsScope scope(options());
  const auto points = [](int64_t n) {
    const std::vector<int64_t> tile = chosen_tile({.n = n, .c = 512, .h = 28, .w = 28});
    return tile[0] * tile[1] * tile[2];
  };
  EXPECT_LT(2 * points(1), points(32));
}

// The rule chooses what its own requirements accept, for windows of every size and images so large
// that it wants wide vectors and long tiles.
TEST(Depthwise, EveryWindowHasALegalChoice) {
  const AutoSchedulerOptionsScope scope(options());
  Rng rng(36);
  for (int i = 0; i < 60; ++i) {
    Form f{
        .type = rng.choose<DataType>({f16, bf16, f32}),
        .layout = rng.choose<ops::Layout>({ops::Layout::ChannelsLast, ops::Layout::ChannelsFirst}),
        .n = rng.choose<int64_t>({1, 32}),
        .c = rng.choose<int64_t>({3, 12, 64, 768}),
        .h = rng.uniform_int(15, 40),
        .r = 1 + i / 4};
    f.w = f.h;
    f.stride = rng.uniform_int(1, 2);
    f.pad = rng.uniform_int(0, f.r / 2);
    f.dilation = f.r <= 8 ? rng.uniform_int(1, 2) : 1;
    const selftest::RandomProgram p =
        rng.chance(0.6)
            ? depthwise(f)
            : pool(rng.chance(0.5), f.type, f.c, f.h, f.w,
                   {.kernel = {f.r}, .stride = {f.stride}, .padding = {f.pad}}, f.layout);
    EXPECT_NO_THROW(emit_cuda(lower_gpu(create_schedule(p.outputs, h200()), p.args())))
        << p.text << ", window " << f.r << ", batch " << f.n << ", padding " << f.pad;
  }
}

TEST(Pooling, ChannelsLast) {
  check_right(pool(false, f16, 8, 12, 13, {.kernel = {3}, .stride = {2}, .padding = {1}}));
  check_right(pool(false, f32, 12, 9, 7, {.kernel = {2}}));
  check_right(pool(false, bf16, 6, 10, 9, {.kernel = {3, 2}, .stride = {1}, .dilation = {2, 1}}));
  check_right(pool(true, f16, 16, 11, 12, {.kernel = {3}, .stride = {1}, .padding = {1}}));
  check_right(pool(true, f32, 3, 8, 8, {.kernel = {2}, .stride = {2}, .count_include_pad = true}));
  check_right(pool(true, f16, 8, 9, 10, {.kernel = {7}, .stride = {1}}));
  check_right(pool(false, f32, 4, 9, 9, {.kernel = {7}, .stride = {1}, .padding = {3}}));
}

TEST(Pooling, ChannelsFirst) {
  const ops::Layout first = ops::Layout::ChannelsFirst;
  check_right(pool(false, f16, 2, 16, 13, {.kernel = {3}, .stride = {2}, .padding = {1}}, first));
  check_right(pool(true, f16, 3, 18, 18, {.kernel = {3}, .stride = {2}, .padding = {1}}, first));
  check_right(pool(false, f32, 3, 9, 7, {.kernel = {2}}, first));
  check_right(pool(false, bf16, 2, 10, 9, {.kernel = {3, 2}, .stride = {1}}, first));
  check_right(pool(true, f32, 2, 11, 12, {.kernel = {5}, .stride = {1}, .padding = {2}}, first));
}

// The window of a thread has constant extents, so that its elements are registers, and maxima of
// 16-bit numbers are not widened.
TEST(Pooling, WindowsAreRegisters) {
  const AutoSchedulerOptionsScope scope(options());
  const selftest::RandomProgram p =
      pool(false, f16, 256, 70, 70, {.kernel = {3}, .stride = {2}, .padding = {1}},
           ops::Layout::ChannelsFirst);
  const std::string text = emit_cuda(lower_gpu(create_schedule(p.outputs, h200()), p.args()));
  EXPECT_EQ(text.find("min("), std::string::npos) << text;
  EXPECT_NE(text.find(" = max_f16("), std::string::npos) << text;
}

// Sums of whole rows or columns, and of long parts of rows, are no windows.
TEST(Pooling, OthersAreNone) {
  const AutoSchedulerOptionsScope scope(options());
  const auto taken = [](const Tensor& y) {
    return make_template(ComputeDag({y}), h200()).knob_index("tile_x") >= 0;
  };
  const Tensor x = placeholder({2, 8, 12, 12}, f16, "x");
  EXPECT_TRUE(taken(ops::max_pool(x, {.kernel = {2}, .layout = ops::Layout::ChannelsLast})));
  EXPECT_TRUE(taken(ops::max_pool(x, {.kernel = {2}})));
  EXPECT_FALSE(taken(ops::max_pool(x, {.kernel = {1, 12}})));
  EXPECT_FALSE(taken(ops::global_max_pool(x, ops::Layout::ChannelsLast)));
  EXPECT_FALSE(taken(ops::sum(x, {1})));
}

// A product, and a convolution over channels, are scheduled by other templates.
TEST(Depthwise, OthersAreNone) {
  const AutoSchedulerOptionsScope scope(options());
  const auto taken = [](const Tensor& y) {
    return make_template(ComputeDag({y}), h200()).knob_index("tile_x") >= 0;
  };
  EXPECT_TRUE(taken(depthwise({}).outputs[0]));
  const Tensor a = placeholder({32, 16}, f32, "a"), b = placeholder({16, 32}, f32, "b");
  EXPECT_FALSE(taken(ops::matmul(a, b)));
  const Tensor x = placeholder({1, 8, 8, 4}, f32, "x"), w = placeholder({3, 3, 4, 8}, f32, "w");
  EXPECT_FALSE(taken(ops::conv2d(x, w, {.layout = ops::Layout::ChannelsLast})));
}

TEST(Depthwise, CompilesWithoutSpills) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const AutoSchedulerOptionsScope scope(options());
  for (const ops::Layout layout : {ops::Layout::ChannelsLast, ops::Layout::ChannelsFirst}) {
    const selftest::RandomProgram p =
        depthwise({.layout = layout, .n = 32, .c = 144, .h = 56, .w = 56});
    const cuda::Cubin cubin = cuda::compile_cuda(
        emit_cuda(lower_gpu(create_schedule(p.outputs, h200()), p.args())), "sm_90a");
    ASSERT_EQ(cubin.kernels.size(), 1);
    EXPECT_EQ(cubin.kernels[0].spill_stores, 0) << p.text;
  }
}

}  // namespace
}  // namespace heddle::testing
