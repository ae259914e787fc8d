#include <ctime>
#include <iostream>

#include "commands.h"
#include "common/figures.h"
#include "common/output_file.h"
#include "heddle/heuristics/heuristic.h"
#include "heddle/heuristics/train_tree.h"
#include "heddle/heuristics/tree_choices.h"
#include "heddle/support/error.h"
#include "heuristic/heuristic.h"
#include "heuristics/train/evaluate.h"
#include "heuristics/train/generate_table.h"
#include "heuristics/trees/tree_file.h"
#include "support/files/file.h"

namespace heddle::cli {
std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &utc)};
}

namespace {

/// The logs, and all of them merged.
struct Data {
  std::vector<HeuristicData> logs;
  HeuristicData all;
};

/// All logs, checked to belong to this version of the heuristic.
Data read_data(const Request& o) {
  const Heuristic& heuristic = heuristic_of(o.name);
  std::vector<HeuristicData> logs;
  // Records come first. If a collector measured the same problem, its times replace those of
  // records.
  if (!o.records.empty()) logs.push_back(data_from_records(read_tuning_logs(o.records), o.name));
  for (const std::string& path : o.logs) logs.push_back(read_heuristic_log(path));
  if (logs.empty())
    throw_user_error("there are no logs to learn from", {},
                     "name logs of `heddle heuristic collect`: --log data.jsonl");
  HeuristicData data = merge(logs);
  for (const std::string& line : data.skipped) std::cerr << "warning: " << line << "\n";
  if (data.heuristic != heuristic.name)
    throw_user_error("the logs are of heuristic '" + data.heuristic + "', not '" + o.name + "'");
  if (data.version != std::to_string(heuristic.version) ||
      data.features != heuristic.all_features())
    throw_user_error("the logs are of another version of heuristic '" + o.name + "'", {},
                     "collect anew");
  return {std::move(logs), std::move(data)};
}

TrainOptions train_options(const Request& o) {
  TrainOptions options;
  options.seed = o.seed;
  options.allowed_loss = o.allowed_loss / 100;
  options.allowed_worst_loss = o.allowed_worst_loss / 100;
  options.date = today();
  return options;
}

// The name of the tree's file, "llvm-znver3.contraction.tree", for the first machine in the logs.
std::string file_of(const Request& o, const HeuristicData& data) {
  if (!o.output.empty()) return o.output;
  const Target target = Target::parse(data.target.substr(0, data.target.find(", ")));
  return learning::tree_file_name(target.kind, target.chip(), o.name);
}

}  // namespace

int train_heuristic(const Request& o) {
  const auto [logs, data] = read_data(o);
  const std::string path = file_of(o, data);
  check_writable(path);
  TrainedTree tree = train_tree(data, train_options(o));
  const auto left_out = learning::leave_machines_out(logs, train_options(o));
  if (!left_out.empty()) tree.training["machines_left_out"] = learning::to_json(left_out);
  const learning::TreeEvaluation worth = learning::cross_evaluate(data, train_options(o));
  learning::write_tree(path, tree);
  if (o.json) {
    Json json = worth.to_json();
    json["tree"] = path;
    json["machines_left_out"] = learning::to_json(left_out);
    std::cout << json.dump(1) << "\n";
    return 0;
  }
  std::cout << count_text(static_cast<int64_t>(data.problems.size()), "problem") << ", "
            << count_text(static_cast<int64_t>(tree.leaves.size()), "leaf") << " in " << path
            << "\non problems that trees were not shown:\n"
            << worth.to_text();
  for (const learning::MachineLeftOut& m : left_out)
    std::cout << "trees of the others, on the problems of " << m.machine << ":\n"
              << m.worth.to_text();
  return 0;
}

int evaluate_heuristic(const Request& o) {
  const HeuristicData data = read_data(o).all;
  learning::TreeEvaluation worth;
  if (o.tree.empty()) {
    worth = learning::cross_evaluate(data, train_options(o));
  } else {
    const TreeHolder tree(learning::read_tree(o.tree));
    worth = learning::evaluate_tree(tree, data);
  }
  std::cout << (o.json ? worth.to_json(true).dump(1) + "\n" : worth.to_text());
  return 0;
}

int generate_heuristic(const Request& o) {
  const TrainedTree tree = learning::read_tree(o.tree);
  // The constructor refuses a tree of another heuristic or version.
  const LearnedChoice learned(heuristic_of(o.name), tree, "tree '" + o.tree + "'");
  check_writable(o.output);
  write_file_atomic(o.output,
                    learning::generate_table(tree, o.symbol.empty() ? "k_" + o.name : o.symbol));
  std::cout << o.output << " has the table of " << o.tree << "\n";
  return 0;
}

}  // namespace heddle::cli
