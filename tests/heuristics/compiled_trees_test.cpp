// The compiled-in tables are those of tophub's trees. HEDDLE_UPDATE_GOLDENS=1 rewrites the tables.
// A tree without a table must be added to src/heuristics/compiled_trees.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "heddle/heuristics/heuristic.h"
#include "heddle/heuristics/tree_choices.h"
#include "heuristics/train/generate_table.h"
#include "heuristics/trees/tree_file.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle {
namespace {

const std::string kSource = source_dir();

/// The names of tophub's trees: "cuda-h100.cuda_reduce_columns".
std::vector<std::string> shipped() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kSource + "/tophub")) {
    const std::string name = file.path().stem().string();
    // Trees of any chip are files alone.
    if (file.path().extension() == ".tree" && name.find("-any.") == std::string::npos)
      names.push_back(name);
  }
  return names;
}

std::string symbol_of(std::string name) {
  for (char& c : name) {
    if (c == '-' || c == '.') c = '_';
  }
  return name;
}

// A table without the kinds of its tree would answer for problems that training did not see.
TEST(CompiledTrees, AreThoseOfTophub) {
  const std::string registered = read_file(kSource + "/src/heuristics/compiled_trees.cpp");
  ASSERT_FALSE(shipped().empty());
  for (const std::string& name : shipped()) {
    const std::string symbol = symbol_of(name);
    const std::string header = kSource + "/src/heuristics/trees/" + symbol + ".h";
    const TrainedTree tree = learning::read_tree(kSource + "/tophub/" + name + ".tree");
    const std::string table = learning::generate_table(tree, symbol);
    if (std::getenv("HEDDLE_UPDATE_GOLDENS") != nullptr) write_file_atomic(header, table);
    EXPECT_EQ(read_file(header), table) << "HEDDLE_UPDATE_GOLDENS=1 writes " << header;
    EXPECT_THAT(registered,
                ::testing::HasSubstr("trees::" + symbol + (tree.kinds ? "_kinds)" : ")")));
  }
}

// A shipped tree of another version of its heuristic would be ignored.
TEST(CompiledTrees, AreOfTheHeuristicsAsTheyAre) {
  for (const std::string& name : shipped()) {
    const TrainedTree tree = learning::read_tree(kSource + "/tophub/" + name + ".tree");
    const Heuristic& heuristic = heuristic_of(name.substr(name.find('.') + 1));
    EXPECT_NO_THROW(LearnedChoice(heuristic, tree, name)) << name;
  }
}

}  // namespace
}  // namespace heddle
