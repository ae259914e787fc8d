// Models as files: the declarations that they become, and the results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include "heddle/codegen/interpreter.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/support/error.h"
#include "onnx/file/mapped_file.h"
#include "onnx/model_builder.h"
#include "runtime/array/deferred.h"
#include "source_dir.h"

namespace heddle::testing {
namespace {

std::vector<NDArray> results(const OnnxModel& model, const std::vector<NDArray>& inputs) {
  std::vector<TensorValue> known;
  for (size_t i = 0; i < inputs.size(); ++i) known.push_back({model.inputs[i], inputs[i]});
  return interpret(model.outputs, known);
}

std::vector<float> values(const NDArray& array) {
  return {array.data<float>(), array.data<float>() + array.size()};
}

std::vector<NDArray> import_and_run(const ModelParts& parts, const std::vector<NDArray>& inputs,
                                    const OnnxOptions& options = {}) {
  const ModelFolder folder("run");
  return results(import_onnx(folder.write("m.onnx", model_bytes(parts)), options), inputs);
}

ModelParts product_with_bias() {
  ModelParts p;
  p.inputs = {value_info("x", {"batch", "3"})};
  p.outputs = {value_info("y", {"batch", "2"})};
  p.initializers = {tensor("w", {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6}),
                    tensor("b", {2}, std::vector<float>{10, -100})};
  p.nodes = {node("product", "MatMul", {"x", "w"}, {"xw"}),
             node("bias", "Add", {"xw", "b"}, {"sum"}), node("act", "Relu", {"sum"}, {"y"})};
  return p;
}

TEST(OnnxImport, BatchNormalizationInTrainingModeUsesTheStatisticsOfItsInput) {
  ModelParts p;
  p.inputs = {value_info("x", {"2", "2", "1"})};
  for (const char* name : {"y", "mean", "variance"}) p.outputs.push_back(value_info(name, {}));
  p.initializers = {tensor("scale", {2}, std::vector<float>{1, 2}),
                    tensor("shift", {2}, std::vector<float>{0, 1}),
                    tensor("m", {2}, std::vector<float>{4, 8}),
                    tensor("v", {2}, std::vector<float>{8, 0})};
  p.nodes = {node("norm", "BatchNormalization", {"x", "scale", "shift", "m", "v"},
                  {"y", "mean", "variance"},
                  {attribute("training_mode", int64_t{1}), attribute("epsilon", 0.0F),
                   attribute("momentum", 0.75F)})};
  // The channels are (1, 3) and (10, 30): means 2 and 20, variances 1 and 100.
  const auto r = import_and_run(p, {NDArray::from(std::vector<float>{1, 10, 3, 30}, {2, 2, 1})});
  const auto near = [](std::vector<float> wanted) {
    return ::testing::Pointwise(::testing::FloatNear(1e-5F), std::move(wanted));
  };
  EXPECT_THAT(values(r[0]), near({-1, -1, 1, 3}));
  EXPECT_THAT(values(r[1]), near({3.5, 11}));
  EXPECT_THAT(values(r[2]), near({6.25, 25}));
}

TEST(OnnxImport, AModelIsADeclarationThatNetworksRun) {
  const ModelFolder folder("network");
  const std::string path = folder.write("m.onnx", model_bytes(product_with_bias()));
  const OnnxModel model = import_onnx(path, {.dims = {{"batch", 2}}});
  EXPECT_THAT(model.input_names, ::testing::ElementsAre("x"));
  EXPECT_THAT(model.output_names, ::testing::ElementsAre("y"));
  EXPECT_EQ(model.inputs[0].extents(), (Extents{2, 3}));
  EXPECT_EQ(model.constants.size(), 2u);
  const NDArray x = NDArray::from(std::vector<float>{1, 0, 0, 1, 1, 1}, {2, 3});
  NDArray y = NDArray::zeros({2, 2}, f32);
  Network(model.outputs).build(model.args()).call(model.arrays({x}, {y}));
  EXPECT_THAT(values(y), ::testing::ElementsAre(11, 0, 19, 0));
}

TEST(OnnxImport, DimensionsWithoutExtentAreAskedFor) {
  const ModelFolder folder("dims");
  const std::string path = folder.write("m.onnx", model_bytes(product_with_bias()));
  try {
    import_onnx(path);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    EXPECT_THAT(e.message, ::testing::HasSubstr("'batch'"));
    EXPECT_THAT(e.help, ::testing::HasSubstr("MODEL:batch=1 (the same as --dims batch=1)"));
  }
}

TEST(OnnxImport, AllDimensionsWithoutExtentAreInTheHint) {
  ModelParts p;
  p.inputs = {value_info("x", {"batch", "length"}), value_info("z", {"batch", ""})};
  p.outputs = {value_info("y", {"batch", "length"})};
  p.nodes = {node("sum", "Add", {"x", "z"}, {"y"})};
  const ModelFolder folder("dims");
  const std::string path = folder.write("m.onnx", model_bytes(p));
  try {
    import_onnx(path);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.message, ::testing::HasSubstr("dimension 0 of input 'x' is 'batch'"));
    EXPECT_THAT(e.help, ::testing::HasSubstr("--dims batch=1,length=1,z:1=1"));
  }
  // The extent of the first dimensions that `batch` gives is not that of others of their name.
  p.inputs[1] = value_info("z", {"2", "batch"});
  EXPECT_THROW(
      import_onnx(folder.write("n.onnx", model_bytes(p)), {.dims = {{"length", 2}}, .batch = 2}),
      Error);
}

TEST(OnnxImport, DimensionsThatTheFileLacksAreNamed) {
  const ModelFolder folder("dims");
  const std::string path = folder.write("m.onnx", model_bytes(product_with_bias()));
  for (const OnnxOptions& options :
       {OnnxOptions{.dims = {{"bach", 1}}}, OnnxOptions{.dims = {{"batch", 2}, {"bach", 3}}},
        OnnxOptions{.ranges = {{"bach", dim("bach", 1, 8)}}}}) {
    try {
      import_onnx(path, options);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_THAT(e.message, ::testing::HasSubstr("no input has a dimension 'bach'"));
      EXPECT_EQ(e.help, "did you mean 'batch'? the open ones are batch");
    }
  }
}

TEST(OnnxImport, NodesMayComeInAnyOrder) {
  ModelParts p = product_with_bias();
  std::swap(p.nodes[0], p.nodes[2]);
  const NDArray x = NDArray::full({1, 3}, f32, 1);
  EXPECT_THAT(values(import_and_run(p, {x}, {.dims = {{"batch", 1}}})[0]),
              ::testing::ElementsAre(19, 0));
}

// Shape, Gather, Concat, Reshape: what the file calculates of shapes is calculated at import.
TEST(OnnxImport, ShapeArithmeticIsFolded) {
  ModelParts p;
  p.inputs = {value_info("x", {"2", "3", "4"})};
  p.outputs = {value_info("y", {"", ""})};
  p.initializers = {tensor("zero", {}, std::vector<int64_t>{0}),
                    tensor("first", {1}, std::vector<int64_t>{0}),
                    tensor("rest", {1}, std::vector<int64_t>{-1})};
  p.nodes = {node("s", "Shape", {"x"}, {"shape"}), node("g", "Gather", {"shape", "zero"}, {"n"}),
             node("u", "Unsqueeze", {"n", "first"}, {"n1"}),
             node("c", "Concat", {"n1", "rest"}, {"wanted"}, {attribute("axis", int64_t{0})}),
             node("r", "Reshape", {"x", "wanted"}, {"y"})};
  const ModelFolder folder("shapes");
  const OnnxModel model = import_onnx(folder.write("m.onnx", model_bytes(p)));
  EXPECT_EQ(model.outputs[0].extents(), (Extents{2, 12}));
  EXPECT_TRUE(model.constants.empty());
}

TEST(OnnxImport, TheBatchReplacesTheFirstDimension) {
  ModelParts p;
  p.inputs = {value_info("x", {"2", "3", "4"})};
  p.outputs = {value_info("y", {"", ""})};
  p.initializers = {tensor("open", {2}, std::vector<int64_t>{-1, 12}),
                    tensor("fixed", {2}, std::vector<int64_t>{2, 12})};
  p.nodes = {node("r", "Reshape", {"x", "open"}, {"y"})};
  const ModelFolder folder("batch");
  const std::string path = folder.write("m.onnx", model_bytes(p));
  EXPECT_EQ(import_onnx(path).outputs[0].extents(), (Extents{2, 12}));
  EXPECT_EQ(import_onnx(path, {.batch = 5}).outputs[0].extents(), (Extents{5, 12}));
  // A node that contains the batch of the export.
  p.nodes = {node("cut", "Reshape", {"x", "fixed"}, {"y"})};
  const std::string fixed = folder.write("fixed.onnx", model_bytes(p));
  EXPECT_EQ(import_onnx(fixed, {.batch = 2}).outputs[0].extents(), (Extents{2, 12}));
  try {
    import_onnx(fixed, {.batch = 5});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    EXPECT_THAT(e.message, ::testing::HasSubstr("node 'cut' (Reshape)"));
    EXPECT_THAT(e.help, ::testing::HasSubstr("exported for a batch of 2"));
  }
}

TEST(OnnxImport, WhatDecidesAShapeMustBeKnown) {
  ModelParts p;
  p.inputs = {value_info("x", {"4"}), value_info("shape", {"2"}, kInt64)};
  p.outputs = {value_info("y", {"", ""})};
  p.nodes = {node("cut", "Reshape", {"x", "shape"}, {"y"})};
  const ModelFolder folder("unknown_shape");
  try {
    import_onnx(folder.write("m.onnx", model_bytes(p)));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.message, ::testing::HasSubstr("node 'cut' (Reshape)"));
    EXPECT_THAT(e.message, ::testing::HasSubstr("depends on the inputs"));
  }
}

Message scale_function(bool with_default) {
  Message f;
  f.text(1, "Scale").text(10, "ours").text(4, "a").text(5, "b");
  if (!with_default) f.text(6, "factor");
  f.message(7, node("c", "Constant", {}, {"k"}, {attribute_of_function("value_float", "factor")}));
  f.message(7, node("m", "Mul", {"a", "k"}, {"b"}));
  f.message(9, Message().text(1, "").number(2, 18));
  if (with_default) f.message(11, attribute("factor", 3.0f));
  return f;
}

TEST(OnnxImport, LocalFunctionsAreInlined) {
  ModelParts p;
  p.inputs = {value_info("x", {"2"})};
  p.outputs = {value_info("z", {"2"})};
  p.functions = {scale_function(false)};
  p.nodes = {node("one", "Scale", {"x"}, {"y"}, {attribute("factor", 2.0f)}, "ours"),
             node("two", "Scale", {"y"}, {"z"}, {attribute("factor", 5.0f)}, "ours")};
  const NDArray x = NDArray::from(std::vector<float>{1, -1});
  EXPECT_THAT(values(import_and_run(p, {x})[0]), ::testing::ElementsAre(10, -10));
  p.functions = {scale_function(true)};
  p.nodes[0] = node("one", "Scale", {"x"}, {"y"}, {}, "ours");
  EXPECT_THAT(values(import_and_run(p, {x})[0]), ::testing::ElementsAre(15, -15));
}

TEST(OnnxImport, OutputsMayBeInputsConstantsAndOneValueTwice) {
  ModelParts p;
  p.inputs = {value_info("x", {"2"})};
  p.initializers = {tensor("k", {2}, std::vector<float>{3, 4})};
  p.nodes = {node("same", "Identity", {"x"}, {"y"}), node("neg", "Neg", {"x"}, {"a"}),
             node("copy", "Identity", {"a"}, {"b"})};
  for (const char* name : {"x", "y", "k", "a", "b"}) p.outputs.push_back(value_info(name, {"2"}));
  const auto r = import_and_run(p, {NDArray::from(std::vector<float>{1, 2})});
  EXPECT_THAT(values(r[0]), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(values(r[1]), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(values(r[2]), ::testing::ElementsAre(3, 4));
  EXPECT_THAT(values(r[3]), ::testing::ElementsAre(-1, -2));
  EXPECT_THAT(values(r[4]), ::testing::ElementsAre(-1, -2));
}

TEST(OnnxImport, ExternalDataAreMappedAndOutliveTheImport) {
  ModelParts p = product_with_bias();
  p.initializers[0] = external_tensor("w", {3, 2}, "weights/w.bin", "64", "24");
  const ModelFolder folder("external");
  std::string file(64, 'x');
  file += raw(std::vector<float>{1, 2, 3, 4, 5, 6});
  folder.write("weights/w.bin", file);
  const OnnxModel model =
      import_onnx(folder.write("m.onnx", model_bytes(p)), {.dims = {{"batch", 1}}});
  // Mapped pages begin at multiples of 4096 bytes; copies are not at 64 of one.
  bool mapped = false;
  for (const Tensor& constant : model.constants)
    mapped = mapped || reinterpret_cast<uintptr_t>(constant.op()->data()->data()) % 4096 == 64;
  EXPECT_TRUE(mapped);
  EXPECT_THAT(values(results(model, {NDArray::full({1, 3}, f32, 1)})[0]),
              ::testing::ElementsAre(19, 0));
}

// Weights, sums and masks in 16 bits; inputs, outputs and shape arithmetic as the file has them.
TEST(OnnxImport, APrecisionTakesThePlaceOfF32) {
  ModelParts p = product_with_bias();
  p.initializers.push_back(tensor("mask", {2}, std::vector<float>{-3e38F, 0}));
  p.initializers.push_back(tensor("scale", {1}, std::vector<float>{1.0F / 3}));
  p.nodes[2] = node("masked", "Add", {"sum", "mask"}, {"m"});
  p.nodes.push_back(node("scaled", "Mul", {"m", "scale"}, {"y"}));
  const NDArray x = NDArray::full({1, 3}, f32, 1);
  for (const DataType type : {f16, bf16}) {
    const ModelFolder folder("precision");
    const OnnxModel model = import_onnx(folder.write("m.onnx", model_bytes(p)),
                                        {.dims = {{"batch", 1}}, .precision = type});
    EXPECT_EQ(model.inputs[0].dtype(), f32);
    EXPECT_EQ(model.outputs[0].dtype(), f32);
    for (const Tensor& constant : model.constants) EXPECT_EQ(constant.dtype(), type);
    const std::vector<float> y = values(results(model, {x})[0]);
    EXPECT_LT(y[0], -20000);
    EXPECT_TRUE(std::isfinite(y[0]));
    EXPECT_NEAR(y[1], -88.0 / 3, 0.3);
  }
  EXPECT_THROW(import_and_run(p, {x}, {.dims = {{"batch", 1}}, .precision = i8}), Error);
}

TEST(OnnxImport, ArraysInAFileAreCopiedOnlyWhereTheyAreNotAligned) {
  alignas(8) static char bytes[16] = {};
  const auto file = onnx::MappedFile::of_bytes(std::string(32, '\0'));
  const std::string_view all(bytes, 16);
  EXPECT_EQ(onnx::array_in_file(file, all.substr(4, 8), {2}, f32).data(), bytes + 4);
  EXPECT_NE(onnx::array_in_file(file, all.substr(3, 8), {2}, f32).data(), bytes + 3);
}

// Large arrays are read when they are needed, at whatever place of the file they lie, and again
// after they were dropped.
TEST(OnnxImport, LargeArraysComeAndGo) {
  constexpr int kCount = 100000;
  const ModelFolder folder("large");
  for (const size_t shift : {0, 3}) {
    std::string content(shift, 'x');
    for (int i = 0; i < kCount; ++i) {
      const auto value = static_cast<float>(i);
      content.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    const std::string path = folder.write("weights" + std::to_string(shift), content);
    const auto file = onnx::MappedFile::open(path);
    const NDArray array = onnx::array_in_file(file, file->bytes().substr(shift), {kCount}, f32);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array.address()) % 4, 0U);
    EXPECT_EQ(internal::identity_of(array), "") << "a file of this moment may still change";
    for (int time = 0; time < 2; ++time) {
      const internal::Pinned pinned({&array, 1});
      const auto* elements = static_cast<const float*>(array.address());
      for (const int i : {0, 5000, kCount - 1}) EXPECT_EQ(elements[i], static_cast<float>(i));
    }
  }
}

TEST(OnnxImport, PlacesOfAFileHaveIdentities) {
  const std::string path = source_dir() + "/tutorials/data/digits.onnx";
  const auto written = std::filesystem::last_write_time(path);
  if (std::filesystem::file_time_type::clock::now() - written < std::chrono::minutes(1))
    GTEST_SKIP() << "the file is new";
  const auto file = onnx::MappedFile::open(path), again = onnx::MappedFile::open(path);
  EXPECT_EQ(file->identity(), again->identity());
  const auto at = [](const auto& mapped, size_t offset) {
    return internal::identity_of(
        onnx::array_in_file(mapped, mapped->bytes().substr(offset, 64), {64}, u8));
  };
  EXPECT_EQ(at(file, 100), at(again, 100));
  EXPECT_NE(at(file, 100), at(file, 101));
}

TEST(OnnxImport, EveryOperatorOfTheTableHasAName) {
  std::map<std::string, int> supported;  // by domain
  for (const OnnxOperator& op : onnx_operators()) supported[op.domain] += op.supported;
  EXPECT_GT(supported[""], 160);
  EXPECT_GT(supported["com.microsoft"], 25);
}

}  // namespace
}  // namespace heddle::testing
