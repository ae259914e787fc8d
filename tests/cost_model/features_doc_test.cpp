// docs/reference/features.md lists every column. To write it anew: HEDDLE_UPDATE_DOCS=1 cost_model_test.
#include <cstdlib>
#include <fstream>
#include <set>

#include "features_testing.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

const char* const kIntroduction = R"(# Features of a program

The cost model sees a candidate as a row of numbers. `schedule_features` extracts it from the loop
nest, and `extract_features` from a lowered function. Magnitudes are log2(1 + x), so that a step of
a tree is a factor.

The features follow those of Ansor (Zheng et al., OSDI 2020, appendix B), with these differences:

- Multiply-adds are counted as such.
- The columns of reuse are 0 where no element is used again.
- There are no one-hot columns of positions.
- Quantities that decide the speed of a kernel on a CPU are computed: the registers that it needs
  against those of the machine, loads for each multiply-add, the bytes from beyond each cache, and
  how evenly tasks fill the cores.

The columns of the whole program come first. Two stores then have columns of their own: those with
most arithmetic, and of equals those that move most bytes. Each of them has three buffers: the one
that it writes, then those that it reads by vectors, then those that all lanes share, then the
others. Accumulators in registers are not counted as buffers. A tail of a loop belongs to its main
part. The columns of a missing store or buffer are zero.

A test writes this file from `feature_columns()`
(`HEDDLE_UPDATE_DOCS=1 build/bin/cost_model_test --gtest_filter='FeaturesDoc.*'`).
)";

const char* const kGpuIntroduction =
    R"(Programs for CUDA have columns of their own, and their models are separate files. The file of a
model names its columns, and loading checks them. The columns come from the same walk over the loop
nest, before work is distributed over threads. The two kernels that a rough model takes to be the
longest come first, then the three stores with most arithmetic. Each store has the buffers in global
and shared memory that it touches, the written one first. The requests of a warp of 32 threads are
computed address by address.
)";

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
  std::string path = source_dir() + "/docs/reference/features.md";
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
