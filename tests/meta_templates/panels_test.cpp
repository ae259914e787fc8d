// Products whose vector operand is copied panel by panel, as blocks come to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/ops/ops.h"
#include "meta_templates/expect_right.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kAsItLies = 0, kWhole = 1, kPanels = 2;

struct Product {
  int64_t batch, rows, cols, depth;
  bool transposed = false, relu = false;
};

selftest::RandomProgram program(const Product& f) {
  selftest::RandomProgram p;
  const int64_t r = f.transposed ? f.cols : f.depth, l = f.transposed ? f.depth : f.cols;
  p.inputs = {placeholder({f.batch, f.rows, f.depth}, f32, "A"),
              placeholder({f.batch, r, l}, f32, "B")};
  const Tensor c = ops::batch_matmul(p.inputs[0], p.inputs[1], false, f.transposed);
  p.outputs = {f.relu ? ops::relu(c) : c};
  p.reduce_length = f.depth;
  p.text = "batch_matmul " + std::to_string(f.batch) + "x" + std::to_string(f.rows) + "x" +
           std::to_string(f.cols) + "x" + std::to_string(f.depth) + (f.transposed ? " tb" : "");
  return p;
}

Template on(const char* target, const Product& f) {
  return make_template(ComputeDag(program(f).outputs), Target::parse(target));
}

TEST(Panels, AreTheChoiceWhereRowsAreFewAndStridesLong) {
  const char* target = "llvm -mcpu=haswell -threads=2";
  EXPECT_EQ(chosen(on(target, {1, 128, 4096, 1024}), "pack_vectors"), kPanels);
  EXPECT_EQ(chosen(on(target, {1, 4096, 4096, 1024}), "pack_vectors"), kWhole);
  EXPECT_EQ(chosen(on(target, {1, 8, 4096, 1024}), "pack_vectors"), kAsItLies);
  EXPECT_EQ(chosen(on(target, {1, 128, 64, 1024}), "pack_vectors"), kAsItLies);
  // Of a panel too long for L2, a part at a time.
  EXPECT_EQ(chosen(on(target, {1, 128, 512, 1024}), "reduction"), 0);
  EXPECT_EQ(chosen(on(target, {1, 32, 512, 8192}), "reduction"), 1);
}

// The gradient of the filters of a convolution over rows: each tap reads the same image, shifted. With
// `depthwise` each channel has filters of its own.
selftest::RandomProgram filter_gradient(int64_t length, int64_t channels, int64_t filters,
                                        int64_t stride, bool depthwise = false) {
  selftest::RandomProgram p;
  const int64_t heads = depthwise ? channels : filters;
  p.inputs = {placeholder({3, heads, 7, length}, f32, "H"),
              placeholder({3, channels, 7, (length - 1) * stride + 3}, f32, "X")};
  const Axis n = reduce_axis(3, "n"), y = reduce_axis(7, "y"), x = reduce_axis(length, "x");
  const auto image = [&](const Axis& c, const Axis& r) {
    return p.inputs[1](n, c, y, x * stride + r);
  };
  const std::string name = "gradient";
  p.outputs = {depthwise ? compute(
                               {3, channels},
                               [&](Axis r, Axis c) {
                                 return sum(p.inputs[0](n, c, y, x) * image(c, r), {n, y, x});
                               },
                               name)
                         : compute(
                               {3, filters, channels},
                               [&](Axis r, Axis k, Axis c) {
                                 return sum(p.inputs[0](n, k, y, x) * image(c, r), {n, y, x});
                               },
                               name)};
  p.reduce_length = 21 * length;
  p.text = "filter gradient " + std::to_string(length) + " " + std::to_string(channels) + " " +
           std::to_string(filters) + " " + std::to_string(stride);
  return p;
}

TEST(Panels, AreNotCopiedForEachWindowOfSeveralThatOverlap) {
  const auto packing = [](const selftest::RandomProgram& p) {
    const Target target = Target::parse("llvm -mcpu=haswell -threads=2");
    return chosen(make_template(ComputeDag(p.outputs), target), "pack_vectors");
  };
  EXPECT_EQ(packing(filter_gradient(56, 64, 128, 1)), kWhole);
  EXPECT_EQ(packing(filter_gradient(56, 64, 128, 2)), kWhole);
}

TEST(Panels, SumsForChannelsThatArePlanesApartGoAlongRows) {
  const selftest::RandomProgram p = filter_gradient(28, 32, 32, 1, true);
  const Template t = make_template(ComputeDag(p.outputs), Target::parse("llvm -mcpu=znver4"));
  const std::string text = t.instantiate(t.default_config()).to_text();
  EXPECT_THAT(text, HasSubstr("gradient.rfactor(x, 16, inner)"));
  uint64_t seed = 1;
  for (const int64_t length : {9, 28, 40})
    expect_right(filter_gradient(length, 20, 20, 1, true), ++seed, 4);
  for (const int64_t stride : {1, 2}) expect_right(filter_gradient(13, 40, 9, stride), ++seed, 4);
}

TEST(Panels, HaveNoLoopOfTheirOwnBeforeTheProduct) {
  const Template t = on("llvm -mcpu=haswell -threads=2", {1, 128, 4096, 1024});
  const std::string text = t.instantiate(t.default_config()).to_text();
  EXPECT_THAT(text, HasSubstr("B.copy.compute_at("));
  EXPECT_THAT(text, Not(HasSubstr("B.copy.parallel(")));
}

TEST(Panels, AreRightInAnyMode) {
  uint64_t seed = 1;
  for (const Product& f :
       {Product{1, 37, 301, 130}, Product{2, 20, 270, 67, true}, Product{3, 33, 129, 200},
        Product{1, 64, 24, 300, true, true}, Product{1, 130, 520, 96, false, true}}) {
    const selftest::RandomProgram p = program(f);
    const Template t = make_template(ComputeDag(p.outputs), Target::host());
    const selftest::Case reference(p, seed);
    Rng rng(seed++);
    const int form = t.knob_index("pack_vectors"), mode = t.knob_index("reduction");
    ASSERT_GE(form, 0);
    ASSERT_GE(mode, 0);
    const size_t modes = t.knobs()[static_cast<size_t>(mode)].values.size();
    int tried = 0;
    for (int attempt = 0; attempt < 200 && tried < 9; ++attempt) {
      Config config = selftest::random_config(t, rng);
      config.values[static_cast<size_t>(form)] = kPanels;
      config.values[static_cast<size_t>(mode)] =
          t.knobs()[static_cast<size_t>(mode)].values[static_cast<size_t>(tried) % modes];
      if (!t.why_invalid(config).empty()) continue;
      ++tried;
      expect_right(p, reference, t, config);
    }
    EXPECT_EQ(tried, 9);
  }
}

}  // namespace
}  // namespace heddle::testing
