// The file of a decision tree, and the log that trees are trained on.
#include <cmath>

#include "fuzz/fuzz_target.h"
#include "heddle/heuristics/dataset.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "heuristics/explain_tree.h"
#include "heuristics/train/generate_table.h"
#include "heuristics/trees/tree_file.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle::fuzz {
namespace {

/// Asks about problems at the limits of what the tree accepts, and beyond.
void ask(const TreeHolder& tree) {
  const TreeTable& table = tree.table();
  for (const double share : {0.0, 0.25, 0.5, 1.0, 2.0}) {
    std::vector<double> features;
    for (const TreeFeature& f : table.features) {
      const auto values = static_cast<double>(f.values.size());
      features.push_back(f.kind == FeatureKind::Categorical
                             ? std::floor(share * values)
                             : f.lowest + share * (f.highest - f.lowest));
    }
    learning::describe_answer(table, answer_of(table, features), features);
    learning::explain_answer(table, features);
  }
  learning::tree_outline(table);
}

}  // namespace

void read_tree_file(std::string_view bytes) {
  const TreeHolder tree(learning::parse_tree(bytes, "input"));
  ask(tree);
  const std::string written = learning::tree_to_text(tree.tree());
  HEDDLE_ICHECK(learning::tree_to_text(learning::parse_tree(written, "written")) == written,
                "a tree that was written is read as another");
  learning::generate_table(tree.tree(), "fuzzed");
}

void read_heuristic_lines(std::string_view bytes) {
  const HeuristicData data = parse_heuristic_log(bytes, "input");
  for (const std::string& problem : data.skipped) {
    HEDDLE_ICHECK(problem.find("internal error") == std::string::npos, problem);
  }
  std::string written = heuristic_log_header(data).dump() + "\n";
  for (const HeuristicProblem& p : data.problems) {
    written += heuristic_log_line(data, p).dump() + "\n";
  }
  const HeuristicData again = parse_heuristic_log(written, "written");
  HEDDLE_ICHECK(again.skipped.empty(), "a line that was written cannot be read");
  HEDDLE_ICHECK(again.problems.size() == data.problems.size() && again.choices == data.choices,
                "a log that was written is read as another");
}

std::vector<std::string> tree_seeds() {
  const std::string text = read_file(source_dir() + "/tests/heuristics/golden/sample.tree");
  return {text, Json::parse(text).dump()};  // one line is changed as JSON, several as bytes
}

std::vector<std::string> heuristic_seeds() {
  const std::string log = read_file(source_dir() + "/tests/heuristics/golden/sample.jsonl");
  std::vector<std::string> seeds;
  std::size_t end = 0;
  for (int line = 0; line < 4; ++line) {
    end = log.find('\n', end) + 1;
    seeds.push_back(log.substr(0, end));
  }
  return seeds;
}

}  // namespace heddle::fuzz
