// The subcommands. A mistake on the command line throws a User error. The result is the exit
// status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::cli {

// What several commands are asked for. Each of these has one spelling (options_shared.cpp).

/// In which type, and for which machine.
struct KernelOptions {
  std::string dtype = "f32";
  int threads = 0;  ///< 0: as the target says
  std::string target = "llvm -mcpu=native";
};

/// One subject, which may be a model or have ranges of sizes.
struct SubjectOptions : KernelOptions {
  std::string subject;
  std::vector<std::string> dims;   ///< of a model, in addition to those of the subject
  std::vector<std::string> sizes;  ///< of ranges: "17", "8x32"; for a race with how often: "17*5"
  std::string passes;              ///< of a model, as parse_passes reads it
  std::string plan;                ///< of a model: a file, or "none"; empty: the one beside it
  bool json = false;
  bool quiet = false;
};

struct ListOptions {
  std::string name;  ///< a kind or a list of workloads; empty: everything
};
int run_list(const ListOptions& options);

struct ExplainOptions : SubjectOptions {
  std::vector<std::string> show;
  std::string pass;  ///< of the loop IR; "all", or empty for the end
  bool naive = false;
  bool allow_tf32 = false;
  int max_kernels = 6;      ///< of a range
  double race_seconds = 0;  ///< of a range; 0: two, and of a model none
  int node = -1;            ///< of a model: the one to explain; -1: list them
};
/// The parts that --show accepts.
const std::vector<std::string>& explain_parts();
int run_explain(const ExplainOptions& options);

struct ExportOptions : SubjectOptions {
  std::string output;         ///< `.o` and `.json` are added to it; of a model, a folder
  int variants = 1;           ///< above 1: that many race, and the pick is exported with them
  double seconds = 10;        ///< of a race
  bool check_weights = true;  ///< of a model, as in ExportNetworkOptions
};
int run_export(const ExportOptions& options);

struct BenchOptions {
  std::vector<std::string> subjects, workloads, dtypes, peers;
  std::vector<int> threads;
  bool no_naive = false;
  double naive_limit_s = 10;
  double seconds = 0.5;
  std::string target = "llvm -mcpu=native";
  std::string json;  ///< a file, or "-"
};
int run_bench(const BenchOptions& options);

struct TuneRequest : KernelOptions {
  TuneRequest() { dtype.clear(); }  // f32, or as the list of workloads says
  std::vector<std::string> subjects, workloads;
  std::vector<std::string> dims;  ///< of models, in addition to those of the subjects
  std::string budget = "60s";
  std::string log;              ///< empty: named after the subjects
  std::string plan;             ///< a file to write and to go on from; empty: none
  bool plan_of_others = false;  ///< that file may be of another version of the model
  int trials = 0;               ///< 0: until the budget ends
  int batch = 0;                ///< 0: as tuning sees fit
  int at_once = 0;  ///< candidates that are timed at the same time; 0: as the machine allows
  uint64_t seed = 0;
  std::string policy, model;
  std::string fleet;         ///< address of a cluster; empty: this machine
  std::string fleet_device;  ///< what Ray calls the devices; empty: after the target
  double fleet_wait = 60;    ///< seconds without a device after which the run fails
  bool no_warm_start = false;
  std::string json;  ///< a file, or "-"
  bool quiet = false;
  std::vector<std::string> sizes;  ///< of a range, with how often they are expected: "17*5"
  int max_kernels = 6;             ///< of a range
};
int run_tune(const TuneRequest& request);

struct ReportRequest {
  std::vector<std::string> logs, picks;      ///< of tuning; of multi-kernels
  std::vector<std::string> families;         ///< JSON of ranges of sizes
  std::string output = "report.html";        ///< a file, or "-"
  std::vector<std::string> calls;            ///< "matmul:512x512x512=3"
  bool ceilings = false;                     ///< measure this machine for the roofline
  double peak_gflops = 0, bandwidth_gb = 0;  ///< or as told; 0: not known
};
int run_report(const ReportRequest& request);

/// The subject and its kernel are those of `why`, target and type also of `transfers`.
struct RecordsOptions : SubjectOptions {
  std::string command;                ///< "list", "best", "merge", ...
  std::vector<std::string> files;     ///< empty: what tophub consults
  std::string filter;                 ///< of list: part of the subject
  std::string out;                    ///< a file; empty: none
  int keep = 0;                       ///< of prune
  std::vector<std::string> subjects;  ///< of transfers: in addition to those of the records
  double seconds = 0.5;               ///< of transfers: for each schedule of a race
};
int run_records(const RecordsOptions& options);

/// The subject is that of `explain`.
struct HeuristicOptions : SubjectOptions {
  HeuristicOptions() { target.clear(); }  // as the heuristic needs
  std::string command;                    ///< "list", "collect", ...
  std::string name;                       ///< of the heuristic
  std::vector<std::string> logs;
  std::string budget = "10m";
  int problems = 0;  ///< 0: until the budget ends
  uint64_t seed = 1;
  std::string cores;                                 ///< to run on; empty: all
  std::string turns;                                 ///< a file; empty: the GPU is not shared
  std::string machine;                               ///< a name; empty: the chip's
  std::vector<std::string> records;                  ///< of train: logs of tuning
  std::string tree;                                  ///< a file
  std::string out;                                   ///< a file; empty: named after the heuristic
  std::string symbol;                                ///< of gen
  double allowed_loss = 2, allowed_worst_loss = 50;  ///< of train and eval, per cent
};
int run_heuristic(const HeuristicOptions& options);

struct SelftestOptions {
  std::string target = "llvm -mcpu=native";
  bool emulate = false;     ///< of a GPU: on the CPU
  std::string compile_for;  ///< a CPU; empty: the target
  int64_t count = 500;
  uint64_t seed = 1;
  std::string only;    ///< declarations with this text
  std::string config;  ///< pairs whose template or knobs have this text
  bool verbose = false;
};
int run_selftest(const SelftestOptions& options);

struct RunOptions : SubjectOptions {
  std::vector<std::string> inputs, outputs;  ///< NAME=FILE.npy
  int64_t batch = 0;                         ///< 0: as the file says
  double seconds = 1;                        ///< of timing; 0: none
  uint64_t seed = 1;                         ///< of random inputs
};
int run_model(const RunOptions& options);
/// Runs a subject with a range of sizes.
int run_family(const RunOptions& options);

struct CacheOptions {
  bool clear = false;  ///< else: list
};
int run_cache(const CacheOptions& options);

struct PicksOptions {
  std::string command;              ///< "list", "why" or "forget"
  std::string key;                  ///< the beginning of one
  std::string filter;               ///< of list: part of the kernel's name
  std::string folder;               ///< empty: the standard one
  bool stale = false, all = false;  ///< of forget
  bool json = false;
};
int run_picks(const PicksOptions& options);

struct ProfileOptions : SubjectOptions {
  double seconds = 2;
  bool tasks = false;  ///< also measure each task as tuning does
};
int run_profile(const ProfileOptions& options);

/// The subject is the plan's model, or another one that the plan is checked for.
struct PlanOptions : SubjectOptions {
  std::string command;             ///< "show", "diff", "check", "merge" or "retune"
  std::vector<std::string> files;  ///< plans
  std::string out;                 ///< a file; of retune empty: the plan itself
  std::string budget = "60s";      ///< of retune
};
int run_plan(const PlanOptions& options);

/// The subject is a model. Its dimensions are completed by `batch`.
struct DeployOptions : SubjectOptions {
  std::string output;         ///< a folder
  std::string budget = "5m";  ///< of tuning
  std::string batch;          ///< "1", "1..32": of the dimension "batch"; empty: as the file says
};
int run_deploy(const DeployOptions& options);

struct FleetRequest {
  std::string command;  ///< "up" or "status"
  std::string address = "auto";
  std::vector<std::string> devices;  ///< "cpu:znver3=1"; empty: those of this machine
};
int run_fleet(const FleetRequest& request);

struct OnnxListOptions {
  bool coverage = false;
};
int run_onnx(const OnnxListOptions& options);

}  // namespace heddle::cli
