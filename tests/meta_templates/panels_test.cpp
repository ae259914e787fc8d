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
