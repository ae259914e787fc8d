// Convolutions computed in blocks of the convolution that reads their image: every config is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/ops/ops.h"
#include "meta_templates/expect_right.h"
#include "meta_templates/layered_program.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

struct Sizes {
  int64_t batch, height, width, channels, wide, window, stride;
};

class Images : public LayeredProgram<Images> {
 public:
  explicit Images(const Sizes& f)
      : LayeredProgram({f.batch, f.height, f.width, f.channels},
                       std::to_string(f.height) + "x" + std::to_string(f.width) + " of " +
                           std::to_string(f.channels) + " and " + std::to_string(f.wide) +
                           " window " + std::to_string(f.window) + " stride " +
                           std::to_string(f.stride)),
        f_(f) {}

  Images& depthwise() {
    const Tensor w = weights({f_.window, f_.window, 1, y_.extent(3)});
    p_.reduce_length *= f_.window * f_.window;
    y_ = ops::depthwise_conv2d(
        y_, w, {.stride = {f_.stride}, .padding = {f_.window / 2}, .layout = ops::NHWC});
    return *this;
  }
  Images& clip() {
    const Tensor bias = weights({y_.extent(3)});
    y_ = ops::clip(ops::add(y_, bias), 0, 6);
    return *this;
  }
  Images& silu() {
    y_ = ops::silu(y_);
    return *this;
  }

 private:
  Sizes f_;
};

constexpr Sizes kSizes[] = {{1, 14, 14, 12, 72, 3, 1},
                            {2, 9, 13, 8, 33, 3, 2},
                            {1, 17, 6, 5, 40, 5, 1},
                            {1, 12, 30, 16, 24, 5, 2},
                            {1, 1, 20, 8, 16, 3, 1}};

TEST(ImageChain, APointwiseConvolutionIsComputedInBlocksOfADepthwiseOne) {
  uint64_t seed = 200;
  for (const Sizes& f : kSizes) {
    expect_right(Images(f).pointwise(f.wide).clip().depthwise().program(), ++seed, 6);
    expect_right(Images(f).pointwise(f.wide).depthwise().silu().program(), ++seed, 4);
  }
}

TEST(ImageChain, ADepthwiseConvolutionIsComputedInBlocksOfAPointwiseOne) {
  uint64_t seed = 300;
  for (const Sizes& f : kSizes) {
    expect_right(Images(f).pointwise(f.wide).silu().depthwise().clip().pointwise(19).program(),
                 ++seed, 6);
  }
  const Sizes same{1, 11, 13, 12, 40, 3, 1};
  expect_right(
      Images(same).pointwise(40).clip().depthwise().silu().pointwise(12).residual().program(),
      ++seed, 6);
}

std::string static_schedule(const selftest::RandomProgram& p, int64_t l2_bytes) {
  Target cpu = Target::parse("llvm -mcpu=haswell -threads=2");
  cpu.l2_bytes = l2_bytes;
  return make_template(ComputeDag(p.outputs), cpu).static_schedule().to_text();
}

TEST(ImageChain, BlocksAreCutByChannelsAndThenByRows) {
  const Sizes f{1, 28, 28, 32, 192, 3, 1};
  const selftest::RandomProgram p = Images(f).pointwise(f.wide).clip().depthwise().program();
  const Template large = make_template(ComputeDag(p.outputs), [] {
    Target cpu = Target::parse("llvm -mcpu=haswell -threads=2");
    cpu.l2_bytes = 1 << 20;
    return cpu;
  }());
  EXPECT_EQ(chosen(large, "other_block_rows"), 28);
  EXPECT_LT(chosen(large, "col_block_tiles") * chosen(large, "tile_cols"), 192);
  Target small = Target::parse("llvm -mcpu=haswell -threads=2");
  small.l2_bytes = 128 << 10;
  EXPECT_LT(chosen(make_template(ComputeDag(p.outputs), small), "other_block_rows"), 28);
  // The epilogue is computed in the block, and the product within a tile of it.
  const std::string text = static_schedule(p, 1 << 20);
  EXPECT_THAT(text, HasSubstr("clip.compute_at(depthwise_conv2d"));
  EXPECT_THAT(text, HasSubstr("conv2d.compute_at(clip"));
}

TEST(ImageChain, ATallImageIsCutByItsColumns) {
  const Sizes f{1, 40, 6, 8, 32, 3, 1};
  const selftest::RandomProgram p =
      Images(f).pointwise(f.wide).clip().depthwise().clip().pointwise(16).program();
  EXPECT_THAT(static_schedule(p, 16 << 10), HasSubstr("compute_at(conv2d"));
  expect_right(p, 400, 6);
}

}  // namespace
}  // namespace heddle::testing
