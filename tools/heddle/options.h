// The options of each subcommand, as CLI11 reads them and --help shows them.
#pragma once

#include "commands.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace heddle::cli {

// Each adds a subcommand to `app`, whose options are read into `o`.
void add_list(CLI::App& app, ListOptions& o);
void add_explain(CLI::App& app, ExplainOptions& o);
void add_deploy(CLI::App& app, DeployOptions& o);
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
void add_plan(CLI::App& app, PlanOptions& o);
void add_profile(CLI::App& app, ProfileOptions& o);
void add_audit(CLI::App& app, AuditRequest& o);
void add_onnx(CLI::App& app, OnnxListOptions& o);
void add_fleet(CLI::App& app, FleetRequest& o);
void add_worker(CLI::App& app);

// The options that several commands have: one spelling, meaning and check for each. Defaults in
// the help are those of the structures.

/// The subject itself. `what` says which ones the command takes.
constexpr const char* kSubject = "Such as matmul:512x512x512; see `heddle list`";
void add_subject(CLI::App* c, std::string& subject, const std::string& what = kSubject);
/// --dtype, --threads and --target.
void add_kernel_options(CLI::App* c, KernelOptions& o);
void add_target(CLI::App* c, std::string& target);
/// --dims: the extents of a model's open dimensions.
void add_dims(CLI::App* c, std::vector<std::string>& dims);
/// The subject, the kernel options, --dims and --passes of a command that takes models.
void add_model_options(CLI::App* c, SubjectOptions& o, const std::string& what);
/// --sizes: of a range, to be called at. `what` is done there, such as "run".
void add_call_sizes(CLI::App* c, std::vector<std::string>& sizes, const std::string& what);
/// --sizes and --max-kernels of a range: which sizes are expected, and how many kernels are kept.
void add_race_options(CLI::App* c, std::vector<std::string>& sizes, int& max_kernels);
void add_json(CLI::App* c, bool& json);
/// --json with a file, or "-".
void add_json(CLI::App* c, std::string& file);
/// Each time that the option is given it takes one value, because other arguments may follow.
CLI::Option* repeated(CLI::Option* option);
/// The same, and each value may be several, separated by commas.
CLI::Option* listed(CLI::Option* option);
/// The values are files that have to be there.
CLI::Option* existing(CLI::Option* option);

}  // namespace heddle::cli
