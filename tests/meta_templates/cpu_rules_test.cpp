// The rules of the CPU templates: their features, the sources that may answer in their place, and
// the replay of old records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "heddle/ops/ops.h"
#include "heddle/schedule/template.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

/// One declaration for each kind of rule, and what it is scheduled for.
struct Subject {
  const char* name;
  Tensor output;
  const char* target = "llvm -mcpu=znver3 -threads=2";
};

Tensor product(int64_t m, int64_t n, int64_t k, DataType type = f32) {
  return ops::matmul(placeholder({m, k}, type, "A"), placeholder({k, n}, type, "B"));
}

Tensor padded_convolution() {
  ops::Conv conv;
  conv.padding = {1};
  return ops::conv2d(placeholder({1, 64, 56, 56}, f32, "X"),
                     constant_placeholder({64, 64, 3, 3}, f32, "W"), conv);
}

std::vector<Subject> subjects() {
  return {{"product", product(512, 512, 512)},
          {"long product", product(32, 512, 8192)},
          {"few results", product(32, 32, 65536)},
          {"matrix and vector", product(1, 4096, 4096)},
          {"bytes", product(256, 256, 256, i8), "llvm -mcpu=sapphirerapids -threads=2"},
          {"convolution", padded_convolution()},
          {"sum of rows", ops::sum(placeholder({4096, 1024}, f32, "X"), {1})},
          {"sum of columns", ops::sum(placeholder({4096, 1024}, f32, "X"), {0})},
          {"sum of all", ops::sum(placeholder({4096, 4096}, f32, "X"), {0, 1})},
          {"softmax", ops::softmax(placeholder({4096, 1024}, f32, "X"))},
          {"layer norm", ops::layer_norm(placeholder({16384, 4096}, f32, "X"))},
          {"elements", ops::relu(placeholder({1024, 1024}, f32, "X"))},
          {"transposition", ops::transpose(placeholder({4096, 4096}, f32, "X"), {1, 0})},
          {"scan", ops::cumsum(placeholder({512, 1000}, f32, "X"), 1)}};
}

Template template_of(const Subject& s) {
  return make_template(ComputeDag({s.output}), Target::parse(s.target), AutoSchedulerOptions());
}

class Installed {
 public:
  explicit Installed(std::shared_ptr<const ChoiceSource> source)
      : before_(install_choice_source(std::move(source))) {}
  ~Installed() { install_choice_source(before_); }
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;

 private:
  std::shared_ptr<const ChoiceSource> before_;
};

/// Is always unsure, and notes what it was asked.
class Listener : public ChoiceSource {
 public:
  std::string version() const override { return "listener"; }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    std::vector<std::string> names;
    for (const NamedFeature& f : question.features) {
      names.emplace_back(f.name);
      EXPECT_TRUE(std::isfinite(f.value)) << question.heuristic << "." << f.name;
    }
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size())
        << question.heuristic << " has two features of one name";
    const auto [known, first] = asked.emplace(question.heuristic, names);
    EXPECT_EQ(known->second, names) << question.heuristic;
    return {};
  }
  mutable std::map<std::string, std::vector<std::string>> asked;
};

TEST(CpuRules, AHeuristicHasTheSameFeaturesForEveryProblem) {
  const auto listener = std::make_shared<Listener>();
  for (const Subject& s : subjects()) {
    const std::string by_rule = template_of(s).to_text();
    const Installed installed(listener);
    EXPECT_EQ(template_of(s).to_text(), by_rule) << s.name;
  }
  std::vector<std::string> heuristics;
  for (const auto& [name, features] : listener->asked) heuristics.push_back(name);
  EXPECT_EQ(heuristics, (std::vector<std::string>{"contraction", "direct", "location", "reduction",
                                                  "scan", "tile_product", "transpose"}));
}

/// Says one value for knobs of one heuristic.
class Answers : public ChoiceSource {
 public:
  Answers(std::string heuristic, std::map<std::string, int64_t> says)
      : heuristic_(std::move(heuristic)), says_(std::move(says)) {}
  std::string version() const override {
    std::string text = heuristic_;
    for (const auto& [knob, value] : says_) text += " " + knob + "=" + std::to_string(value);
    return text;
  }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    if (question.heuristic != heuristic_) return {};
    Choice choice("tree of the test");
    for (const auto& [knob, value] : says_) choice.set(knob, value, "measured");
    return {choice};
  }

 private:
  std::string heuristic_;
  std::map<std::string, int64_t> says_;
};

const Knob& knob(const Template& t, const std::string& name) {
  return t.knobs().at(static_cast<size_t>(t.knob_index(name)));
}

TEST(CpuRules, AnAnswerTakesThePlaceOfTheRules) {
  const Subject s = subjects()[0];
  ASSERT_NE(knob(template_of(s), "tile_rows").default_value, 4);
  const Installed source(std::make_shared<Answers>(
      "contraction", std::map<std::string, int64_t>{{"tile_rows", 4}, {"tile_cols", 7}}));
  const Template t = template_of(s);
  EXPECT_EQ(knob(t, "tile_rows").default_value, 4);
  EXPECT_EQ(knob(t, "tile_rows").source, "tree of the test");
  EXPECT_EQ(knob(t, "tile_cols").source, "rule") << "7 columns are no vectors";
  EXPECT_THAT(t.to_text(), HasSubstr("tree of the test says 7 for 'tile_cols'"));
  EXPECT_THAT(t.static_schedule().to_text(), HasSubstr(".split(i, 4)"));
}

// There are no registers for 14 rows of 4 vectors: the tile of the rule is kept, and this is
// reported.
TEST(CpuRules, AnAnswerThatIsNotLegalLeavesTheRules) {
  const Subject s = subjects()[0];
  const Config by_rule = template_of(s).default_config();
  const Installed source(std::make_shared<Answers>(
      "contraction", std::map<std::string, int64_t>{{"tile_rows", 14}, {"tile_cols", 32}}));
  const Template t = template_of(s);
  EXPECT_EQ(t.default_config(), by_rule);
  EXPECT_THAT(t.to_text(), HasSubstr("the register tile must fit the vector registers"));
}

// There is a legal static choice whatever a source answers for all knobs.
TEST(CpuRules, NoAnswerBreaksTheStaticChoice) {
  for (const Subject& s : subjects()) {
    std::map<std::string, std::set<std::string>> knobs;  // of each heuristic
    for (const char* heuristic :
         {"contraction", "direct", "location", "reduction", "scan", "tile_product", "transpose"}) {
      for (int64_t value : {0, 1, 2, 64}) {
        std::map<std::string, int64_t> says;
        for (const Knob& k : template_of(s).knobs())
          says[k.name.substr(k.name.rfind('.') + 1)] = value;
        const Installed source(std::make_shared<Answers>(heuristic, says));
        const Template t = template_of(s);
        EXPECT_EQ(t.why_invalid(t.default_config()), "") << s.name << " " << heuristic << value;
      }
    }
  }
}

// All rows of a short column sum are read at once, so its accumulators need no cache.
TEST(CpuRules, AShortColumnSumKeepsOneVectorInARegister) {
  const Target t = Target::parse("llvm -mcpu=skylake-avx512 -threads=2");
  const auto tile = [&](int64_t rows) {
    const Tensor y = ops::sum(placeholder({rows, 4096}, f32, "x"), {0});
    const Template made = make_static_template(ComputeDag({y}), t, {});
    return made.knobs().at(static_cast<size_t>(made.knob_index("tile"))).default_value;
  };
  EXPECT_EQ(tile(8), 16);
  EXPECT_GE(tile(9), 64);
}

// Rows that end after a few pages are one stream, where they fill the accumulators.
TEST(CpuRules, ShortRowsOfAMatrixInMemoryAreReadOneAfterTheOther) {
  const Target t = Target::parse("llvm -mcpu=skylake-avx512 -threads=1");
  const auto streams = [&](int64_t depth, DataType type) {
    const Tensor y = ops::matmul(placeholder({1, depth}, type, "x"),
                                 constant_placeholder({32000, depth}, type, "w"), false, true);
    AutoSchedulerOptions direct;
    direct.use_alternatives = false;
    const Template made = make_static_template(ComputeDag({y}), t, direct);
    return made.knobs().at(static_cast<size_t>(made.knob_index("streams"))).default_value;
  };
  EXPECT_EQ(streams(2048, f32), 1);
  EXPECT_EQ(streams(4096, bf16), 1);
  EXPECT_EQ(streams(8192, f32), 4);
  EXPECT_EQ(streams(14336, bf16), 4);
}

// A 1x1 window of stride 2 reads a quarter of an image, which few filters do not pay a copy of.
TEST(CpuRules, AnImageIsCopiedWhereItIsUsedOftenEnough) {
  const Target t = Target::parse("llvm -mcpu=skylake-avx512 -threads=2");
  const auto copied = [&](int64_t filters) {
    ops::Conv halved;
    halved.stride = {2};
    const Tensor y = ops::conv2d(placeholder({1, 256, 28, 28}, f32, "x"),
                                 constant_placeholder({filters, 256, 1, 1}, f32, "w"), halved);
    AutoSchedulerOptions direct;
    direct.use_alternatives = false;
    const Template made = make_static_template(ComputeDag({y}), t, direct);
    const int knob = made.knob_index("channels_last");
    EXPECT_GE(knob, 0);
    return made.knobs().at(static_cast<size_t>(knob)).default_value;
  };
  EXPECT_EQ(copied(64), 0);
  EXPECT_EQ(copied(512), 1);
}

// Channels in blocks of a vector: a tile takes as many blocks as it takes vectors where channels
// lie side by side.
TEST(CpuRules, BlocksOfChannelsAreTheVectorsOfATile) {
  const auto chosen = [](int64_t rows, int64_t blocks) {
    const int64_t block = 16;
    const Tensor x = placeholder({1, blocks, rows, rows, block}, f32, "x"),
                 w = constant_placeholder({blocks, blocks, 3, 3, block, block}, f32, "w");
    const Axis co = reduce_axis(blocks, "co"), r = reduce_axis(3, "r"), s = reduce_axis(3, "s"),
               ci = reduce_axis(block, "ci");
    const Tensor y = compute(
        {1, blocks, rows - 2, rows - 2, block}, [&](Axis n, Axis ko, Axis i, Axis j, Axis ki) {
          return sum(x(n, co, i + r, j + s, ci) * w(ko, co, r, s, ci, ki), {co, r, s, ci});
        });
    AutoSchedulerOptions direct;
    direct.use_alternatives = false;
    const Template t = make_static_template(
        ComputeDag({y}), Target::parse("llvm -mcpu=sapphirerapids -threads=2"), direct);
    std::map<std::string, int64_t> values;
    for (const Knob& knob : t.knobs()) values[knob.name] = knob.default_value;
    return values;
  };
  const auto large = chosen(58, 4), small = chosen(9, 32);
  EXPECT_EQ(large.at("tile_blocks"), 4) << "all results of a pixel";
  EXPECT_EQ(small.at("tile_rows"), 7) << "whole rows";
  EXPECT_EQ(small.at("tile_blocks"), 3);
  for (const auto& values : {large, small}) {
    EXPECT_FALSE(values.contains("tile_cols"));
    EXPECT_FALSE(values.contains("channels_last")) << "channels of a block lie side by side";
  }
}

// A 1x1 convolution of an image in planes, as the product that it is.
std::map<std::string, int64_t> chosen_for_1x1(int64_t channels, int64_t pixels, int64_t filters,
                                              const std::string& target) {
  const Tensor y = ops::matmul(constant_placeholder({filters, channels}, f32, "w"),
                               placeholder({channels, pixels}, f32, "x"));
  const Template t = make_template(ComputeDag({y}), Target::parse(target), AutoSchedulerOptions());
  std::map<std::string, int64_t> chosen;
  for (const Knob& knob : t.knobs()) chosen[knob.name] = knob.default_value;
  return chosen;
}

TEST(CpuRules, FewColumnsAreOneTileWhereVectorsAreLines) {
  EXPECT_EQ(chosen_for_1x1(2048, 49, 512, "llvm -mcpu=sapphirerapids -threads=1")["tile_cols"], 64);
  EXPECT_LT(chosen_for_1x1(2048, 49, 512, "llvm -mcpu=znver3 -threads=1")["tile_cols"], 49);
}

TEST(CpuRules, FewColumnsAreSharedByRowsAndManyByColumns) {
  const char* const target = "llvm -mcpu=sapphirerapids -threads=2";
  auto few = chosen_for_1x1(1024, 196, 256, target), many = chosen_for_1x1(512, 784, 128, target);
  EXPECT_EQ(few["col_block_tiles"], (196 + few["tile_cols"] - 1) / few["tile_cols"]);
  EXPECT_LT(few["row_block_tiles"] * few["tile_rows"], 256);
  EXPECT_LE(many["col_block_tiles"] * many["tile_cols"], 448);
}

int64_t chosen_of(const Subject& s, const std::string& name) {
  const Template t = template_of(s);
  for (const Knob& k : t.knobs()) {
    if (k.name == name || k.name.ends_with("." + name)) return k.default_value;
  }
  ADD_FAILURE() << s.name << " has no knob " << name;
  return -100;
}

// Vectors that lie across lines of memory are gathered unless they are copied. Long rows that vectors lie along are not.
TEST(CpuRules, FewRowsCopyPanelsOfWhatLiesAcrossLines) {
  const char* const xeon = "llvm -mcpu=sapphirerapids -threads=2";
  constexpr int64_t kAsItLies = 0, kPanels = 2;
  const auto packing = [&](int64_t rows, bool across) {
    const Tensor b = across ? placeholder({64, 4096}, f32, "B") : placeholder({4096, 64}, f32, "B");
    const Tensor y = ops::matmul(placeholder({rows, 4096}, f32, "A"), b, false, across);
    return chosen_of({"product", y, xeon}, "pack_vectors");
  };
  EXPECT_EQ(packing(8, true), kPanels);
  EXPECT_EQ(packing(4, true), kAsItLies);
  EXPECT_EQ(packing(8, false), kAsItLies);
}

TEST(CpuRules, ShortLinesOfPlanesAreWrittenAtOnceToo) {
  const auto staged = [&](int64_t side) {
    ops::Conv halved;
    halved.stride = {2};
    halved.padding = {1};
    const Tensor y = ops::conv2d(placeholder({1, 32, side, side}, f32, "x"),
                                 constant_placeholder({96, 32, 3, 3}, f32, "w"), halved);
    return chosen_of({"planes", y, "llvm -mcpu=sapphirerapids -threads=2"}, "stage_results");
  };
  EXPECT_EQ(staged(14), 1);
  EXPECT_EQ(staged(5), 0);
}

// An operation of a group of rows takes longer than one of a product. Many threads are not woken for so little.
TEST(CpuRules, SmallGroupsOfRowsAreSharedOut) {
  const auto is_shared = [](int64_t rows, int64_t columns, const char* target) {
    const Subject s{"softmax", ops::softmax(placeholder({rows, columns}, f32, "x")), target};
    return template_of(s).static_schedule().to_text().find("parallel(") != std::string::npos;
  };
  EXPECT_TRUE(is_shared(433, 12, "llvm -mcpu=sapphirerapids -threads=2"));
  EXPECT_FALSE(is_shared(16, 128, "llvm -mcpu=sapphirerapids -threads=2"));
  EXPECT_FALSE(is_shared(433, 12, "llvm -mcpu=sapphirerapids -threads=16"));
}

// Weights come from beyond the caches in a network. Small ones are there after their first lines.
TEST(CpuRules, LargeConstantsAreFetchedAheadWhereVectorsAreLines) {
  const char* const xeon = "llvm -mcpu=sapphirerapids -threads=1";
  EXPECT_GT(chosen_for_1x1(512, 784, 128, xeon).at("prefetch_packed"), 0);
  EXPECT_EQ(chosen_for_1x1(64, 784, 16, xeon).at("prefetch_packed"), 0);
  EXPECT_FALSE(chosen_for_1x1(512, 784, 128, "llvm -mcpu=znver3").contains("prefetch_packed"));
}

// An element of the image is read by nine taps and by the tiles of several filters.
TEST(CpuRules, PaddingThatComputesFunctionsIsStored) {
  ops::Conv conv;
  conv.layout = ops::NHWC;
  conv.padding = {1};
  conv.stride = {2};
  const auto location = [&](Tensor (*activation)(const Tensor&)) {
    const Tensor y = ops::conv2d(activation(placeholder({1, 28, 28, 64}, f32, "X")),
                                 constant_placeholder({3, 3, 64, 64}, f32, "W"), conv);
    const Template t = template_of({"convolution", y});
    for (const Knob& k : t.knobs()) {
      if (k.name.ends_with("location")) return k.default_value;
    }
    return int64_t{-100};
  };
  constexpr int64_t kAtRoot = 0, kInlined = -1;
  EXPECT_EQ(location([](const Tensor& x) { return ops::silu(x); }), kAtRoot);
  EXPECT_EQ(location([](const Tensor& x) { return ops::relu(x); }), kInlined);
}

// A loop over the channels of a concatenation is cut at each of its parts, and each piece has a whole tile of the product.
TEST(CpuRules, ConcatenationsOfManyPartsAreStored) {
  const auto location = [](int64_t parts) {
    std::vector<Tensor> images;
    for (int64_t i = 0; i < parts; ++i)
      images.push_back(placeholder({1, 14, 14, 32}, f32, "X" + std::to_string(i)));
    ops::Conv conv;
    conv.layout = ops::NHWC;
    const Tensor y = ops::conv2d(ops::relu(ops::concat(images, 3)),
                                 constant_placeholder({1, 1, 32 * parts, 64}, f32, "W"), conv);
    const Template t = template_of({"convolution", y});
    for (const Knob& k : t.knobs()) {
      if (k.name.ends_with("location")) return k.default_value;
    }
    return int64_t{-100};
  };
  constexpr int64_t kAtRoot = 0, kInlined = -1;
  EXPECT_EQ(location(2), kInlined);
  EXPECT_EQ(location(12), kAtRoot);
}

TEST(CpuRules, RecordsWithOldNamesReplay) {
  const Template t = template_of(subjects()[1]);
  const auto config = [&](const char* text) { return t.config_from_json(Json::parse(text)); };
  EXPECT_EQ(config(R"({"mode": 0, "pack_vectors": 2})"),
            config(R"({"reduction": "whole", "pack_vectors": "panels"})"));
  EXPECT_EQ(config(R"({"mode": 1, "row_block": 1, "col_block": 2})"),
            config(R"({"reduction": "k_blocked", "row_block_tiles": 1, "col_block_tiles": 2})"));
  EXPECT_EQ(config(R"({"mode": 2})"), config(R"({"reduction": "split_k"})"));
}

}  // namespace
}  // namespace heddle
