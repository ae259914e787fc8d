// The subcommands. A mistake on the command line throws a User error. The result is the exit
// status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::cli {

struct ListOptions {
  std::string name;  ///< a kind or a list of workloads; empty: everything
};
int run_list(const ListOptions& options);

struct ExplainOptions {
  std::string subject;
  std::vector<std::string> dims;  ///< of a model, in addition to those of the subject
  std::string dtype = "f32";
  int threads = 0;  ///< 0: as the target says
  std::vector<std::string> show;
  std::string pass;  ///< of the loop IR; "all", or empty for the end
  std::string target = "llvm -mcpu=native";
  bool naive = false;
  bool allow_tf32 = false;
  bool json = false;
  std::string passes;              ///< of a model, as parse_passes reads it
  std::vector<std::string> sizes;  ///< of a range, with how often they are expected: "17*5"
  int max_kernels = 6;             ///< of a range
  double race_seconds = 0;         ///< of a range; 0: two, and of a model none
  int node = -1;                   ///< of a model: the one to explain; -1: list them
};
/// The parts that --show accepts.
const std::vector<std::string>& explain_parts();
int run_explain(const ExplainOptions& options);

struct ExportOptions {
  std::string subject;
  std::vector<std::string> dims;  ///< of a model, in addition to those of the subject
  std::string output;             ///< `.o` and `.json` are added to it; of a model, a folder
  std::string dtype = "f32";
  int threads = 0;  ///< 0: as the target says
  std::string target = "llvm -mcpu=native";
  int variants = 1;     ///< above 1: that many race, and the pick is exported with them
  double seconds = 10;  ///< of a race
  std::string passes;   ///< of a model, as parse_passes reads it
};
int run_export(const ExportOptions& options);

struct BenchOptions {
  std::vector<std::string> subjects, workloads, dtypes, peers;
  std::vector<int> threads;
  bool no_naive = false;
  bool ranked = false;
  double naive_limit_s = 10;
  double seconds = 0.5;
  std::string target = "llvm -mcpu=native";
  std::string json;  ///< a file, or "-"
};
int run_bench(const BenchOptions& options);

struct TuneRequest {
  std::vector<std::string> subjects, workloads;
  std::vector<std::string> dims;  ///< of models, in addition to those of the subjects
  std::string budget = "60s";
  std::string log;    ///< empty: named after the subjects
  std::string dtype;  ///< empty: f32, or as the list of workloads says
  std::string target = "llvm -mcpu=native";
  int threads = 0;  ///< 0: all cores
  int trials = 0;   ///< 0: until the budget ends
  int batch = 0;    ///< 0: as tuning sees fit
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

struct RecordsOptions {
  std::string command;  ///< "list", "best", "merge", "prune", "upgrade", "train" or "why"
  std::vector<std::string> files;  ///< empty: what tophub consults
  std::string filter;              ///< of list: part of the subject
  std::string out;                 ///< a file; empty: none
  int keep = 0;                    ///< of prune
  std::string subject, dtype = "f32", target = "llvm -mcpu=native";  ///< of why
  int threads = 0;
  bool json = false;
};
int run_records(const RecordsOptions& options);

struct HeuristicOptions {
  std::string command;  ///< "list", "collect", ...
  std::string name;     ///< of the heuristic
  std::vector<std::string> logs;
  std::string budget = "10m";
  int problems = 0;  ///< 0: until the budget ends
  uint64_t seed = 1;
  int threads = 0;                                   ///< 0: as the target says
  std::string cores;                                 ///< to run on; empty: all
  std::string target;                                ///< empty: as the heuristic needs
  std::string turns;                                 ///< a file; empty: the GPU is not shared
  std::string machine;                               ///< a name; empty: the chip's
  std::vector<std::string> records;                  ///< of train: logs of tuning
  std::string tree;                                  ///< a file
  std::string out;                                   ///< a file; empty: named after the heuristic
  std::string symbol;                                ///< of gen
  std::string subject, dtype = "f32";                ///< of explain
  double allowed_loss = 2, allowed_worst_loss = 50;  ///< of train and eval, per cent
  bool json = false, quiet = false;
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

struct RunOptions {
  std::string model;
  std::vector<std::string> inputs, outputs;  ///< NAME=FILE.npy
  std::vector<std::string> dims;             ///< NAME=EXTENT
  std::vector<std::string> sizes;            ///< of a range: "17", of two: "8x32"
  int64_t batch = 0;                         ///< 0: as the file says
  std::string precision = "f32";
  int threads = 0;  ///< 0: as the target says
  std::string target = "llvm -mcpu=native";
  double seconds = 1;  ///< of timing; 0: none
  uint64_t seed = 1;   ///< of random inputs
  std::string passes;  ///< as parse_passes reads it
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

struct ProfileOptions {
  std::string subject;
  std::vector<std::string> dims;   ///< of a model, in addition to those of the subject
  std::vector<std::string> sizes;  ///< of a network over ranges, to profile calls at
  std::string dtype = "f32";
  int threads = 0;  ///< 0: as the target says
  std::string target = "llvm -mcpu=native";
  double seconds = 2;
  bool tasks = false;  ///< also measure each task as tuning does
  std::string passes;  ///< as parse_passes reads it
  bool json = false;
};
int run_profile(const ProfileOptions& options);

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
