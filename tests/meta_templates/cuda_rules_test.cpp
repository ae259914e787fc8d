// The rules of the CUDA templates: the sources that may answer in their place, and the replay of
// old records.
#include <gtest/gtest.h>

#include <memory>

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
    return {Choice("a test").set("threads", 64, "it says so").set("rows_per_block", 1, "then")};
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
