// The options of each subcommand, as CLI11 reads them and --help shows them.
#pragma once

#include "commands.h"

namespace CLI {
class App;
}

namespace heddle::cli {

// Each adds a subcommand to `app`, whose options are read into `o`.
void add_list(CLI::App& app, ListOptions& o);
void add_explain(CLI::App& app, ExplainOptions& o);
void add_export(CLI::App& app, ExportOptions& o);
void add_bench(CLI::App& app, BenchOptions& o);
void add_tune(CLI::App& app, TuneRequest& o);
void add_report(CLI::App& app, ReportRequest& o);
void add_records(CLI::App& app, RecordsOptions& o);
void add_heuristic(CLI::App& app, HeuristicOptions& o);
void add_selftest(CLI::App& app, SelftestOptions& o);
void add_run(CLI::App& app, RunOptions& o);
void add_picks(CLI::App& app, PicksOptions& o);
void add_cache(CLI::App& app, CacheOptions& o);
void add_profile(CLI::App& app, ProfileOptions& o);
void add_onnx(CLI::App& app, OnnxListOptions& o);
void add_fleet(CLI::App& app, FleetRequest& o);
void add_worker(CLI::App& app);

/// --dims: the extents of a model's open dimensions.
void add_dims_option(CLI::App* c, std::vector<std::string>& dims);

/// The options of a range of sizes: which sizes are expected, and how many kernels are kept.
void add_range_options(CLI::App* c, std::vector<std::string>& sizes, int& max_kernels);

}  // namespace heddle::cli
