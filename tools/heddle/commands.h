// The commands, and what they are asked for. A mistake on the command line throws a User error. The
// result of a command is the exit status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::cli {

/// What the line asked for: a field for each option. The table of options (options/option_table.cpp)
/// says what each means, the table of commands which of them a command takes and what it has where
/// the line says nothing; request_for (options/parse_line.h) makes one with those values.
struct Request {
  std::string command;  ///< "tune", "records list"

  // What the command is about.
  std::string subject;
  std::vector<std::string> subjects, workloads;
  std::vector<std::string> dims;  ///< are in the subjects, too, when a command runs
  std::string name, key;
  std::vector<std::string> logs;
  std::string filter;  ///< part of a name: only those

  // The kernels.
  std::string dtype, target, passes, memory, plan;
  std::vector<std::string> dtypes;
  double tolerance = -1;  ///< of a model's outputs; below 0: none is given
  int threads = 0;        ///< 0: as the target says
  std::vector<int> thread_counts;
  std::vector<std::string> sizes;
  int max_kernels = 0, variants = 0;
  int batch = 0;        ///< of a model; 0: as the file says
  bool states = false;  ///< is in the subject, too, when a command runs
  bool naive = false, allow_tf32 = false, no_weights_check = false, settle = false;

  // What is shown, read and written.
  std::vector<std::string> show;
  std::string pass;
  int node = -1;  ///< -1: none
  std::string output;
  std::vector<std::string> inputs, outputs;
  bool json = false;
  std::string json_file;  ///< "-": standard output
  bool quiet = false, verbose = false, coverage = false, tasks = false;

  // Generation.
  std::vector<std::string> prompt_ids;  ///< lists of tokens, one for each sequence
  std::string prompts;                  ///< a file with such lists
  std::string end_ids;                  ///< tokens that end a sequence; "": those of config.json
  int tokens = 0, capacity = 0, chunk = 0, top_k = 0;
  int block = 0, blocks = 0;  ///< rows of a block of the cache, and their number
  bool greedy = false, dynamic_quantization = false;
  double temperature = 0, top_p = 0;

  // Timing and racing.
  double seconds = 0, race_seconds = 0;
  std::vector<std::string> peers;
  bool no_naive = false;
  double naive_limit_seconds = 0;

  // Tuning, records, and reports of them.
  std::string budget, until, log, policy, model;
  int trials = 0, round = 0, at_once = 0;  ///< 0: as tuning sees fit
  uint64_t seed = 0;
  bool no_warm_start = false;
  bool plan_of_others = false;  ///< the plan to go on from may be of another version of the model
  std::vector<std::string> plans;
  std::string fleet, fleet_device, address;
  double fleet_wait_seconds = 0;
  std::vector<std::string> devices;
  int keep = 0;
  std::vector<std::string> picks, families, audits, calls;
  bool ceilings = false;
  double peak_gflops = 0, bandwidth_gb = 0;  ///< 0: not known

  // Audits.
  int worst = 0;
  bool rules = false;
  std::string tune_each, choices;  ///< budgets; empty: none

  // Heuristics.
  int problems = 0;  ///< 0: until the budget ends
  std::string cores, turns, machine, tree, symbol;
  std::vector<std::string> records;
  std::vector<std::string> heuristics, from;  ///< from: models, and logs of tuning
  bool show_learned = false, forget = false, conclude = false;
  double allowed_loss = 0, allowed_worst_loss = 0;  ///< per cent

  // Quantising.
  std::string data, types_json, method;
  double percentile = 0;
  bool per_tensor = false;
  std::vector<std::string> keep_nodes;

  // Picks, and random programs.
  std::string store;
  bool stale = false, all = false;
  bool emulate = false, only_code = false;
  std::string compile_for, config;
  int count = 0;
};

int run_list(const Request& request);
int run_explain(const Request& request);
int run_export(const Request& request);
int run_bench(const Request& request);
int run_tune(const Request& request);
int run_quantize(const Request& request);
int run_report(const Request& request);
int run_selftest(const Request& request);
int run_model(const Request& request);
int run_generate(const Request& request);
int run_profile(const Request& request);
int run_audit(const Request& request);
int run_deploy(const Request& request);
int show_plan(const Request& request);
int diff_plans(const Request& request);
int check_plan(const Request& request);
int merge_plans(const Request& request);
int retune_plan(const Request& request);
int run_onnx(const Request& request);
int run_worker(const Request& request);
int list_records(const Request& request);
int best_records(const Request& request);
int merge_records(const Request& request);
int prune_records(const Request& request);
int upgrade_records(const Request& request);
int train_on_records(const Request& request);
int why_record(const Request& request);
int race_on_near_cases(const Request& request);
int list_heuristics(const Request& request);
int list_constants(const Request& request);
int show_certificates(const Request& request);
int run_learn(const Request& request);
int collect_for_heuristic(const Request& request);
int train_heuristic(const Request& request);
int evaluate_heuristic(const Request& request);
int generate_heuristic(const Request& request);
int explain_heuristic(const Request& request);
int list_picks(const Request& request);
int why_pick(const Request& request);
int forget_picks(const Request& request);
int list_caches(const Request& request);
int clear_caches(const Request& request);
int start_fleet(const Request& request);
int show_fleet(const Request& request);

/// The parts that `explain --show` names.
const std::vector<std::string>& explain_parts();

}  // namespace heddle::cli
