// heddle heuristic: collect measurements, learn from them, and tell what was learned.
#include "heddle/support/error.h"
#include "heuristic/heuristic.h"

namespace heddle::cli {

int run_heuristic(const HeuristicOptions& options) {
  if (options.command == "list") {
    list_heuristics(options);
    return 0;
  }
  if (options.command == "collect") return collect_for_heuristic(options);
  throw_internal_error("no subcommand of heuristic is called '" + options.command + "'");
}

}  // namespace heddle::cli
