// Models with dimensions whose sizes calls give: one declaration, the same as an import at each
// size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/codegen/interpreter.h"
#include "heddle/dag/instance.h"
#include "heddle/onnx/import.h"
#include "heddle/support/error.h"
#include "onnx/ranges_testing.h"

namespace heddle::testing {
namespace {

using Sizes = std::map<std::string, int64_t>;

std::map<std::string, Dim> ranges_of(const std::vector<std::pair<std::string, int64_t>>& largest) {
  std::map<std::string, Dim> ranges;
  for (const auto& [name, hi] : largest) ranges.emplace(name, dim(name, 1, hi));
  return ranges;
}

/// "" when the model over dimensions is at these sizes what an import at them is.
std::string wrong_at(const OnnxModel& any, const std::string& path, const OnnxOptions& options,
                     const Sizes& sizes) {
  OnnxOptions constant;
  constant.dims = options.dims;
  constant.dims.insert(sizes.begin(), sizes.end());
  const OnnxModel one = import_onnx(path, constant);
  std::vector<SizeValue> values;
  for (const auto& [name, d] : options.ranges) values.emplace_back(d, sizes.at(name));
  const Instance here = at_sizes(any.outputs, values);
  std::vector<TensorValue> of_one, of_any;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const NDArray x = NDArray::random(one.inputs[i].extents(), one.inputs[i].dtype(), i + 1);
    of_one.push_back({one.inputs[i], x});
    of_any.push_back({here.of(any.inputs[i]), x});
  }
  const std::vector<NDArray> want = interpret(one.outputs, of_one),
                             have = interpret(here.outputs, of_any);
  for (size_t o = 0; o < want.size(); ++o) {
    const Difference d = compare(have[o], want[o], 1e-5, 1e-5);
    if (!d.ok()) return any.output_names[o] + ": " + describe(d, have[o]);
  }
  return "";
}

TEST(OnnxRanges, OneDimensionIsRightAtEverySize) {
  const ModelFolder folder("range");
  const std::string path = folder.write("m.onnx", model_bytes(attention_model()));
  OnnxOptions options{.dims = {{"batch", 1}}, .ranges = ranges_of({{"seq", 12}})};
  const OnnxModel any = import_onnx(path, options);
  ASSERT_EQ(any.dims.size(), 1u);
  EXPECT_EQ(any.dims[0].name(), "seq");
  EXPECT_THAT(any.input_names, ::testing::ElementsAre("x"));
  for (int64_t seq = 1; seq <= 12; ++seq)
    EXPECT_EQ(wrong_at(any, path, options, {{"seq", seq}}), "") << seq;
}

TEST(OnnxRanges, TwoDimensionsAreRightTogether) {
  const ModelFolder folder("ranges");
  const std::string path = folder.write("m.onnx", model_bytes(attention_model()));
  const OnnxOptions options{.ranges = ranges_of({{"batch", 3}, {"seq", 5}})};
  const OnnxModel any = import_onnx(path, options);
  for (int64_t batch = 1; batch <= 3; ++batch) {
    for (int64_t seq = 1; seq <= 5; ++seq)
      EXPECT_EQ(wrong_at(any, path, options, {{"batch", batch}, {"seq", seq}}), "")
          << batch << " " << seq;
  }
}

TEST(OnnxRanges, ConvolutionsHaveABatch) {
  const ModelFolder folder("images");
  const std::string path = folder.write("m.onnx", model_bytes(images_model()));
  for (const int64_t most : {2, 5}) {
    const OnnxOptions options{.ranges = ranges_of({{"batch", most}})};
    const OnnxModel any = import_onnx(path, options);
    for (int64_t batch = 1; batch <= most; ++batch)
      EXPECT_EQ(wrong_at(any, path, options, {{"batch", batch}}), "") << batch;
  }
}

std::string error_of_import(const ModelParts& parts, const OnnxOptions& options) {
  const ModelFolder folder("bad_range");
  try {
    import_onnx(folder.write("m.onnx", model_bytes(parts)), options);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    return e.message + " | " + e.help;
  }
  return "nothing was thrown";
}

TEST(OnnxRanges, WhatDependsOnTheSizeOtherwiseIsNamed) {
  ModelParts p;
  p.inputs = {value_info("x", {"n", "4"})};
  p.outputs = {value_info("y", {"n", "4"})};
  p.initializers = {tensor("zero", {}, std::vector<int64_t>{0})};
  p.nodes = {node("shape", "Shape", {"x"}, {"x_shape"}),
             node("rows", "Gather", {"x_shape", "zero"}, {"n"}, {attribute("axis", int64_t{0})}),
             node("real", "Cast", {"n"}, {"real_n"}, {attribute("to", int64_t{kFloat})}),
             node("root", "Sqrt", {"real_n"}, {"root_n"}),
             node("scaled_by_root", "Mul", {"x", "root_n"}, {"y"})};
  const std::string text = error_of_import(p, {.ranges = ranges_of({{"n", 40}})});
  EXPECT_THAT(text, ::testing::HasSubstr("node 'scaled_by_root' (Mul)"));
  EXPECT_THAT(text, ::testing::HasSubstr("other sizes"));
}

TEST(OnnxRanges, SizesThatTheFileRefusesAreNamed) {
  ModelParts p;
  p.inputs = {value_info("x", {"n", "4"})};
  p.outputs = {value_info("y", {"n", "4"})};
  p.initializers = {tensor("b", {7, 1}, ramp(7))};
  p.nodes = {node("rows", "Add", {"x", "b"}, {"y"})};
  const std::string text = error_of_import(p, {.ranges = ranges_of({{"n", 9}})});
  EXPECT_THAT(text, ::testing::HasSubstr("for example at n = 9: "));
  EXPECT_THAT(text, ::testing::HasSubstr("node 'rows' (Add)"));
}

TEST(OnnxRanges, OptionsThatContradictAreRefused) {
  EXPECT_THAT(error_of_import(images_model(),
                              {.dims = {{"batch", 2}}, .ranges = ranges_of({{"batch", 4}})}),
              ::testing::HasSubstr("give one of the two"));
  EXPECT_THAT(error_of_import(images_model(), {.ranges = ranges_of({{"batch", 4}, {"sqe", 4}})}),
              ::testing::HasSubstr("no input has a dimension 'sqe'"));
  EXPECT_THAT(error_of_import(images_model(), {.ranges = ranges_of({{"batch", 1}})}),
              ::testing::HasSubstr("one size only"));
}

TEST(OnnxRanges, ErrorsThatNoSizeCausesNameNoSize) {
  ModelParts odd = images_model();
  odd.nodes[1] = node("odd", "NoSuchOperator", {"c"}, {"r"});
  const auto ranges = ranges_of({{"batch", 4}});
  for (const std::string& text :
       {error_of_import(odd, {.ranges = ranges}),
        error_of_import(images_model(), {.ranges = ranges_of({{"bach", 4}})}),
        error_of_import(images_model(), {.ranges = ranges, .precision = i8})}) {
    EXPECT_THAT(text, ::testing::HasSubstr("m.onnx': "));
    EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("batch = 4")));
  }
}

}  // namespace
}  // namespace heddle::testing
