// heddle heuristic: collects measurements, trains trees on them, and explains the trees.
#include "heddle/support/error.h"
#include "heuristic/heuristic.h"

namespace heddle::cli {

namespace {

[[noreturn]] void unknown(const std::string& command) {
  throw_internal_error("no subcommand of heuristic is called '" + command + "'");
}

}  // namespace

int run_heuristic(const HeuristicOptions& options) {
  if (options.command == "list") {
    list_heuristics(options);
    return 0;
  }
  if (options.command == "collect") return collect_for_heuristic(options);
  if (options.command == "train") {
    train_heuristic(options);
  } else if (options.command == "eval") {
    evaluate_heuristic(options);
  } else if (options.command == "gen") {
    generate_heuristic(options);
  } else if (options.command == "explain") {
    explain_heuristic(options);
  } else {
    unknown(options.command);
  }
  return 0;
}

}  // namespace heddle::cli
