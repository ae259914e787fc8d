// heddle bench: times subjects beside what else computes the same, and prints tables and JSON. What
// that is depends on the subject: libraries, the rules' choices of a model, kernels for one size.
#include <algorithm>
#include <fstream>
#include <iostream>

#include "bench/bench_case.h"
#include "bench/bench_gpu.h"
#include "bench/bench_models.h"
#include "bench/bench_ranges.h"
#include "bench/tables.h"
#include "commands.h"
#include "common/machine.h"
#include "common/output_file.h"
#include "common/progress.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "peers/peer_cblas.h"
#include "peers/peer_halide.h"
#include "peers/peer_libxsmm.h"
#include "peers/peer_onednn.h"
#include "peers/peer_openblas.h"
#include "subjects/gpu_peers.h"
#include "subjects/peer_set.h"
#include "subjects/target_text.h"
#include "support/files/file.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

std::vector<std::string> peers_of(const Request& options, bool gpu) {
  const std::vector<std::string> known = gpu ? gpu_peer_names() : peer_names();
  if (options.peers.empty()) return gpu ? known : default_peers();
  if (options.peers == std::vector<std::string>{"none"}) return {};
  if (std::ranges::find(options.peers, "none") != options.peers.end())
    throw_user_error("--peers cannot be none and others", {}, "leave none out");
  for (const std::string& name : options.peers) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw_user_error(name + " does not compute on " + (gpu ? "GPUs" : "CPUs"), {},
                     "those that do: " + join(known, ", "));
  }
  return options.peers;
}

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  int64_t kib = 0;
  while (file >> name >> kib >> unit) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return INT64_MAX;
}

// The memory for the inputs once, and for each implementation its outputs and what it keeps
// besides.
void check_memory(const Problem& problem) {
  const double needed = 3.0 * static_cast<double>(problem.bytes);
  const auto available = static_cast<double>(available_memory());
  if (needed < 0.9 * available) return;
  throw_user_error(problem.subject + " needs about " + format_fixed(needed * 1e-9, 1) +
                       " GB, and " + format_fixed(available * 1e-9, 1) + " GB are free",
                   {}, "choose smaller extents");
}

std::vector<Problem> problems_of(const Request& options) {
  std::vector<Problem> problems;
  std::vector<DataType> dtypes;
  for (const std::string& name : options.dtypes) dtypes.push_back(dtype_of(name));
  for (const std::string& subject : options.subjects) {
    for (const DataType t : dtypes.empty() ? std::vector{f32} : dtypes) {
      problems.push_back(make_problem(subject, t));
    }
  }
  for (const std::string& list : options.workloads) {
    for (const Workload& w : workloads_of(list)) {
      // A requested type replaces that of the workload, except in workloads that are about their
      // type.
      const bool replace = w.dtype == f32 && !dtypes.empty();
      for (const DataType t : replace ? dtypes : std::vector{w.dtype}) {
        problems.push_back(make_problem(w.subject, t));
      }
    }
  }
  if (problems.empty()) {
    throw_user_error("nothing to run", {},
                     "name subjects (matmul:512x512x512) or a list (--workloads matmul); "
                     "`heddle list` shows both");
  }
  for (const Problem& p : problems) check_memory(p);
  return problems;
}

std::string machine_text(const std::vector<std::string>& peers) {
  std::string out = to_string(Target::host()) + "\n";
  for (const std::string& peer : peers) {
    if (peer == "openblas") {
      const peers::OpenBlasInfo& info = peers::openblas_info();
      out += info.available ? "openblas: " + info.config + ", kernels " + info.core_name
                            : "openblas: not used, " + info.error;
    } else if (peer == "blis" || peer == "mkl") {
      const peers::CblasPeer& info = peer == "mkl" ? peers::mkl() : peers::blis();
      out += peer + ": " + (info.available ? info.version : "not used, " + info.error);
    } else if (peer == "libxsmm") {
      out += peers::libxsmm_available() ? "libxsmm: " + peers::libxsmm_version()
                                        : "libxsmm: not used, built without it";
    } else if (peer == "halide") {
      out += peers::halide_available() ? "halide: 14, Adams2019"
                                       : "halide: not used, its executable was not built";
    } else {
      out += peers::onednn_available() ? "onednn: " + peers::onednn_version()
                                       : "onednn: not used, built without it";
    }
    out += "\n";
  }
  return out;
}

CaseOptions case_options(const Request& options) {
  CaseOptions each;
  each.target = Target::parse(options.target);
  each.peers = peers_of(options, each.target.is_cuda());
  each.naive = !options.no_naive;
  each.naive_limit_s = options.naive_limit_seconds;
  each.seconds = options.seconds;
  return each;
}

// Runs each problem with each number of threads. Prints the table of each as soon as it is
// complete.
std::vector<CaseResult> run_cases(const std::vector<Problem>& problems,
                                  const std::vector<int>& threads, CaseOptions each,
                                  Machine& machine, Progress& progress, std::ostream& out) {
  std::vector<CaseResult> results;
  for (size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = problems[i];
    auto say = [&](const std::string& what) {
      progress.show("[" + std::to_string(i + 1) + "/" + std::to_string(problems.size()) + "] " +
                    problem.subject + ": " + what);
    };
    say("making inputs");
    const std::vector<NDArray> inputs = problem.make_inputs();
    for (const int n : threads) {
      each.threads = n;
      results.push_back(run_case(problem, inputs, each, say));
      say("measuring the machine");
      const std::string table = case_table(results.back(), machine);
      progress.clear();
      out << table << std::endl;
    }
  }
  return results;
}

/// Writes to a file or, for "-", to standard output; nothing for an empty name.
void write_json(const Json& json, const std::string& file) {
  const std::string text = json.dump(1) + "\n";
  if (file == "-") {
    std::cout << text << std::flush;
  } else if (!file.empty()) {
    write_file_atomic(file, text);
  }
}

}  // namespace

int run_bench(const Request& options) {
  const bool to_stdout = options.json_file == "-";
  if (!options.json_file.empty() && !to_stdout) check_writable(options.json_file);
  std::ostream& out = to_stdout ? std::cerr : std::cout;
  bool right = true;
  const auto finish = [&](const char* name, Json results) {
    write_json(Json::object({{name, std::move(results)}}), options.json_file);
    return right ? 0 : 1;
  };
  if (are_ranges(options)) return finish("ranges", bench_ranges(options, out, &right));
  if (are_models(options)) return finish("models", bench_models(options, out));
  const CaseOptions each = case_options(options);
  if (each.target.is_cuda()) {
    const GpuBenchOptions gpu = {each.target, each.peers, options.seconds};
    return finish("results", bench_on_gpu(problems_of(options), gpu, out, &right));
  }
  std::vector<int> threads = options.thread_counts;
  if (threads.empty()) threads.push_back(default_num_threads());
  const std::vector<Problem> problems = problems_of(options);

  Progress progress;
  Machine machine(each.target);
  out << machine_text(each.peers);
  if (each.target != Target::host()) out << "compiled for " << to_string(each.target) << "\n";
  out << std::endl;
  const std::vector<CaseResult> results =
      run_cases(problems, threads, each, machine, progress, out);
  if (results.size() > 1) out << summary_table(results, machine) << std::flush;

  if (!options.json_file.empty()) {
    progress.show("measuring the machine");
    Json j = Json::object();
    j["machine"] = machine.to_json(threads, each.peers);
    j["results"] = Json::array();
    for (const CaseResult& r : results) j["results"].push_back(to_json(r));
    progress.clear();
    write_json(j, options.json_file);
  }
  const bool good = std::all_of(results.begin(), results.end(), [](const CaseResult& r) {
    return r.mismatches.empty() && r.failures.empty();
  });
  return good ? 0 : 1;
}

}  // namespace heddle::cli
