// Products computed in blocks of rows of the product that reads them, and operands that are parts
// of one stage: every config is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/ops/ops.h"
#include "meta_templates/expect_right.h"
#include "meta_templates/layered_program.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

std::string static_text(const selftest::RandomProgram& p, const Target& target = Target::host()) {
  const Template t = make_template(ComputeDag(p.outputs), target);
  return t.instantiate(t.default_config()).to_text();
}

class Layers : public LayeredProgram<Layers> {
 public:
  explicit Layers(Shape input) : LayeredProgram(std::move(input), "layers") {}
  Layers& linear(int64_t columns) {
    const int64_t depth = y_.extents().back();
    y_ = ops::add(ops::matmul(y_, weights({depth, columns})), weights({columns}));
    p_.reduce_length *= depth;
    p_.text += " " + std::to_string(columns);
    return *this;
  }
  Layers& gelu() {
    y_ = ops::gelu(y_);
    return *this;
  }
  Layers& relu() {
    y_ = ops::relu(y_);
    return *this;
  }
};

TEST(ProductChain, TheFirstProductIsComputedWithWhatFollowsItInBlocksOfTheSecond) {
  const Target target = Target::parse("llvm -mcpu=skylake-avx512 -threads=1");
  const std::string text =
      static_text(Layers({128, 24}).linear(72).gelu().linear(24).program(), target);
  EXPECT_THAT(text, HasSubstr("gelu.compute_at("));
  // The sums of a register tile go through the activation, and no row of them is stored.
  EXPECT_THAT(text, HasSubstr("matmul.compute_at(gelu"));
}

TEST(ProductChain, IsRightInAnyConfig) {
  uint64_t seed = 300;
  for (const auto& [rows, depth, inner, columns] :
       {std::array<int64_t, 4>{130, 24, 70, 24}, {97, 33, 130, 33}, {64, 8, 16, 8}, {203, 5, 9, 5}})
    expect_right(Layers({rows, depth}).linear(inner).gelu().linear(columns).residual().program(),
                 ++seed, 6);
  expect_right(Layers({3, 45, 20}).linear(50).relu().linear(31).program(), ++seed, 6);
  // Three products, one in blocks of the other.
  expect_right(Layers({150, 16}).linear(40).relu().linear(24).relu().linear(12).program(), ++seed,
               6);
}

TEST(ProductChain, PointwiseConvolutionsOfOneImageAreRightInAnyConfig) {
  uint64_t seed = 320;
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{14, 14}, {9, 23}, {30, 8}})
    expect_right(Layers({1, height, width, 12}).pointwise(40).relu().pointwise(20).relu().program(),
                 ++seed, 6);
}

// Two products of one input, multiplied element by element, in blocks of a third.
selftest::RandomProgram gated(int64_t rows, int64_t depth, int64_t inner) {
  selftest::RandomProgram p;
  const auto input = [&](Shape shape) {
    p.inputs.push_back(placeholder(std::move(shape), f32, "x" + std::to_string(p.inputs.size())));
    return p.inputs.back();
  };
  const Tensor x = ops::rms_norm(input({rows, depth})),
               gate = ops::silu(ops::matmul(x, input({depth, inner}))),
               up = ops::add(ops::matmul(x, input({depth, inner})), input({inner}));
  p.outputs = {ops::matmul(ops::mul(gate, up), input({inner, depth}))};
  p.reduce_length = depth * inner;
  p.text = "gated " + std::to_string(rows) + " " + std::to_string(depth);
  return p;
}

TEST(ProductChain, AGateIsRightInAnyConfig) {
  const Target target = Target::parse("llvm -mcpu=skylake-avx512 -threads=1");
  const std::string text = static_text(gated(198, 32, 64), target);
  EXPECT_THAT(text, ::testing::AllOf(HasSubstr("silu.compute_at("), HasSubstr("mul.compute_at(")));
  uint64_t seed = 340;
  for (const auto& [rows, depth, inner] :
       {std::array<int64_t, 3>{198, 32, 64}, {130, 9, 24}, {96, 16, 40}})
    expect_right(gated(rows, depth, inner), ++seed, 6);
}

// Attention whose queries, keys and values are parts of one product.
selftest::RandomProgram parts_of_one(int64_t heads, int64_t length, int64_t size) {
  selftest::RandomProgram p;
  const Tensor x = placeholder({length, 3 * heads * size}, f32, "X");
  const auto part = [&](int64_t n) {
    return compute({heads, length, size},
                   [&](Axis h, Axis i, Axis d) { return x(i, n * heads * size + h * size + d); });
  };
  const Tensor q = part(0), k = part(1), v = part(2);
  p.inputs = {x};
  p.outputs = {ops::scaled_dot_product_attention(q, k, v)};
  p.reduce_length = length + size;
  p.text = "parts of one " + std::to_string(heads) + " " + std::to_string(length) + " " +
           std::to_string(size);
  return p;
}

TEST(ProductChain, OneOfTwoOperandsInOneStageIsCopiedAlone) {
  selftest::RandomProgram p;
  const Tensor x = placeholder({128, 256}, f32, "X");
  const Axis k = reduce_axis(64, "k");
  p.inputs = {x};
  p.outputs = {compute(
      {128, 128}, [&](Axis i, Axis j) { return sum(x(i, k) * x(j, 192 + k), {k}); }, "scores")};
  p.reduce_length = 64;
  p.text = "two parts of one stage";
  const Template t =
      make_template(ComputeDag(p.outputs), Target::parse("llvm -mcpu=skylake-avx512 -threads=1"));
  const std::string text = t.instantiate(t.default_config()).to_text();
  EXPECT_THAT(text, HasSubstr("X.cache_read(j, scores.local) -> X.copy"));
  expect_right(p, 330, 10);
}

TEST(ProductChain, AttentionOfPartsOfOneProductIsRightInAnyConfig) {
  uint64_t seed = 340;
  expect_right(parts_of_one(2, 70, 16), ++seed, 6);
  expect_right(parts_of_one(3, 33, 24), ++seed, 6);
}

}  // namespace
}  // namespace heddle::testing
