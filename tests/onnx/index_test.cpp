// Gathers whose indices are known at import, and those whose indices are data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/codegen/interpreter.h"
#include "heddle/onnx/import.h"
#include "heddle/support/error.h"
#include "onnx/model_builder.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// x (1, seq) plus a row of a table of eight for each position.
ModelParts positions_model() {
  ModelParts p;
  p.inputs = {value_info("x", {"1", "seq"})};
  p.outputs = {value_info("y", {"1", "seq"})};
  p.initializers = {tensor("wpe", {8}, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}),
                    tensor("zero", {}, std::vector<int64_t>{0}),
                    tensor("one", {}, std::vector<int64_t>{1})};
  p.nodes = {node("s", "Shape", {"x"}, {"shape"}), node("n", "Gather", {"shape", "one"}, {"seq"}),
             node("r", "Range", {"zero", "seq", "one"}, {"positions"}),
             node("embed", "Gather", {"wpe", "positions"}, {"rows"}),
             node("sum", "Add", {"x", "rows"}, {"y"})};
  return p;
}

Error error_of(const ModelParts& parts, const OnnxOptions& options) {
  const ModelFolder folder("index");
  try {
    import_onnx(folder.write("m.onnx", model_bytes(parts)), options);
  } catch (const Error& e) {
    return e;
  }
  return Error(ErrorKind::Internal, "nothing was thrown");
}

TEST(OnnxIndex, KnownAndOutOfRangeNamesNodeIndexAndTable) {
  const ModelFolder folder("index");
  const std::string path = folder.write("m.onnx", model_bytes(positions_model()));
  EXPECT_EQ(import_onnx(path, {.dims = {{"seq", 8}}}).outputs[0].extents(), (Extents{1, 8}));
  const Error e = error_of(positions_model(), {.dims = {{"seq", 12}}});
  EXPECT_EQ(e.kind, ErrorKind::User);
  EXPECT_THAT(e.message, AllOf(HasSubstr("node 'embed' (Gather)"), HasSubstr("index 8 "),
                               HasSubstr("'wpe' (8) has 8 positions")));
}

TEST(OnnxIndex, ARangeOfSizesThatIsTooLargeNamesTheLargest) {
  for (const int64_t most : {9, 100, 4096}) {
    const Error e = error_of(positions_model(), {.ranges = {{"seq", dim("seq", 1, most)}}});
    EXPECT_EQ(e.kind, ErrorKind::User);
    EXPECT_THAT(e.message, HasSubstr("node 'embed' (Gather)"));
    EXPECT_THAT(e.help, AllOf(HasSubstr("the largest seq"), HasSubstr("seq=1..8"))) << most;
  }
  // Where no size works, none is named.
  ModelParts never = positions_model();
  never.nodes[4] = node("sum", "Add", {"x", "positions"}, {"y"});
  EXPECT_THAT(error_of(never, {.ranges = {{"seq", dim("seq", 1, 100)}}}).help,
              ::testing::Not(HasSubstr("largest")));
}

TEST(OnnxIndex, EveryOperatorChecksWhatItKnows) {
  const auto message = [](const Message& n, const std::vector<int64_t>& dims,
                          const std::vector<int64_t>& indices) {
    ModelParts p;
    p.inputs = {value_info("x", {"2", "3"})};
    p.outputs = {value_info("y", {"", ""})};
    p.initializers = {tensor("i", dims, indices), tensor("u", {1, 3}, std::vector<float>{1, 2, 3})};
    p.nodes = {n};
    return error_of(p, {}).message;
  };
  const Message axis = attribute("axis", int64_t{1});
  const auto one = [&](const char* op, const std::vector<std::string>& inputs) {
    return node("n", op, inputs, {"y"}, {axis});
  };
  const Message gather = one("Gather", {"x", "i"}), each = one("GatherElements", {"x", "i"}),
                scatter = one("ScatterElements", {"x", "i", "u"}),
                nd = node("n", "GatherND", {"x", "i"}, {"y"}),
                into = node("n", "ScatterND", {"x", "i", "u"}, {"y"});
  EXPECT_EQ(message(gather, {2}, {-3, 2}), "nothing was thrown");
  EXPECT_THAT(message(gather, {2}, {0, 3}), HasSubstr("index 3 at [1] of 'i'"));
  EXPECT_THAT(message(gather, {}, {-4}), HasSubstr("index -4 "));
  EXPECT_EQ(message(each, {1, 3}, {0, 2, -3}), "nothing was thrown");
  EXPECT_THAT(message(each, {1, 3}, {0, 2, 3}), HasSubstr("index 3 at [0, 2]"));
  EXPECT_EQ(message(scatter, {1, 3}, {0, 2, -3}), "nothing was thrown");
  EXPECT_THAT(message(scatter, {1, 3}, {0, 2, -4}), HasSubstr("index -4 at [0, 2]"));
  EXPECT_EQ(message(nd, {1, 2}, {1, 2}), "nothing was thrown");
  EXPECT_THAT(message(nd, {1, 2}, {2, 2}), HasSubstr("index 2 at [0, 0]"));
  EXPECT_EQ(message(into, {1, 1}, {-2}), "nothing was thrown");
  EXPECT_THAT(message(into, {1, 1}, {2}), HasSubstr("index 2 "));
}

}  // namespace
}  // namespace heddle::testing
