// docs/features.md lists every column. To write it anew: HEDDLE_UPDATE_DOCS=1 cost_model_test.
#include <cstdlib>
#include <fstream>
#include <set>

#include "features_testing.h"
#include "heddle/support/file.h"

namespace heddle::testing {
namespace {

const char* const kIntroduction =
    "# Features of a program\n"
    "\n"
    "What the cost model sees of a candidate: a row of numbers, extracted from its loop nest by\n"
    "`schedule_features`, or from a lowered function by `extract_features`. Magnitudes are given "
    "as\n"
    "log2(1 + x), so that a step of a tree is a factor. After Ansor's features (Zheng et al., "
    "OSDI\n"
    "2020, appendix B), with these differences: multiply-adds are counted as such; where nothing "
    "is\n"
    "used again the columns of reuse are 0; no one-hot columns of positions; and what decides the\n"
    "speed of a kernel on a CPU is worked out instead of left to be found: registers against "
    "those\n"
    "there are, loads for each multiply-add, the bytes that come from beyond each cache, how "
    "evenly\n"
    "tasks fill the cores.\n"
    "\n"
    "The columns of the whole program come first. Then two stores have columns of their own, "
    "those\n"
    "with most arithmetic (of equals, those that move most bytes), and of each of them three "
    "buffers:\n"
    "what it writes, then what it reads by vectors, then what all lanes share, then the rest.\n"
    "Accumulators in registers are no buffers. A tail of a loop belongs to its main part. A store "
    "or\n"
    "buffer that is not there has zeros.\n"
    "\n"
    "This file is written by a test from `feature_columns()`\n"
    "(`HEDDLE_UPDATE_DOCS=1 build/bin/cost_model_test --gtest_filter='FeaturesDoc.*'`).\n";

const char* const kGpuIntroduction =
    "Programs for CUDA have columns of their own, and models for them are files of their own: "
    "which\n"
    "set a model is for is part of what its file is checked by. They come from the same walk over "
    "the\n"
    "loop nest, before work is distributed over threads. The two kernels that a rough model takes "
    "to\n"
    "be the longest come first, then the three stores with most arithmetic, and of each the "
    "buffers\n"
    "in global and shared memory that it touches, what it writes first. What a warp's 32 threads "
    "ask\n"
    "for at once is worked out address by address.\n";

bool starts(const std::string& s, const std::string& prefix) { return s.rfind(prefix, 0) == 0; }

std::string table(const std::string& prefix, const std::string& without,
                  const std::string& kind = "llvm") {
  std::string out = "\n| column | unit | what |\n|---|---|---|\n";
  for (const FeatureColumn& c : feature_columns(kind)) {
    if (!starts(c.name, prefix) || (!without.empty() && starts(c.name, without))) continue;
    out += "| `" + c.name.substr(prefix.size()) + "` | " + c.unit + " | " + c.about + " |\n";
  }
  return out;
}

std::string document() {
  return std::string(kIntroduction) + "\nThere are " + std::to_string(feature_columns().size()) +
         " columns.\n" + "\n## The program: `total.`\n" + table("total.", "") +
         "\n## A store: `store0.`, `store1.`\n" + table("store0.", "store0.buf") +
         "\n## A buffer of a store: `store0.buf0.` ... `store1.buf2.`\n" +
         table("store0.buf0.", "") + "\n# Of a program for a GPU\n\n" + kGpuIntroduction +
         "\nThere are " + std::to_string(feature_columns("cuda").size()) + " columns.\n" +
         "\n## The program: `total.`\n" + table("total.", "", "cuda") +
         "\n## A kernel: `kernel0.`, `kernel1.`\n" + table("kernel0.", "", "cuda") +
         "\n## A store: `store0.` ... `store2.`\n" + table("store0.", "store0.buf", "cuda") +
         "\n## A buffer of a store: `store0.buf0.` ... `store2.buf2.`\n" +
         table("store0.buf0.", "", "cuda");
}

TEST(FeaturesDoc, ListsEveryColumn) {
  std::string path = std::string(HEDDLE_SOURCE_DIR) + "/docs/features.md";
  if (std::getenv("HEDDLE_UPDATE_DOCS")) write_file_atomic(path, document());
  EXPECT_EQ(read_file(path), document());
}

TEST(FeaturesDoc, ColumnsHaveNamesUnitsAndSentences) {
  std::set<std::string> names;
  for (const FeatureColumn& c : feature_columns()) {
    EXPECT_TRUE(names.insert(c.name).second) << "twice: " << c.name;
    EXPECT_FALSE(c.unit.empty()) << c.name;
    ASSERT_FALSE(c.about.empty()) << c.name;
    EXPECT_EQ(c.about.back(), '.') << c.name;
    bool known = starts(c.name, "total.") || starts(c.name, "store0.") || starts(c.name, "store1.");
    EXPECT_TRUE(known) << c.name;
  }
}

}  // namespace
}  // namespace heddle::testing
