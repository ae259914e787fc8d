#include "common/family.h"

#include <iostream>
#include <optional>

#include "common/output_file.h"
#include "common/run_sizes.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/search/tune_family.h"
#include "heddle/support/error.h"
#include "network/race/call_timer.h"
#include "subjects/family_subject.h"
#include "subjects/target_text.h"
#include "support/files/file.h"
#include "tune/budget.h"
#include "tune/share.h"

namespace heddle::cli {
namespace {

constexpr double kExplainSeconds = 2;  // for the race of static choices

Json json_of(const FamilySubject& f, DataType dtype, const Target& target,
             const FamilyResult& result) {
  Json j = Json::object(
      {{"subject", f.subject}, {"dtype", to_string(dtype)}, {"target", to_string(target)}});
  j["family"] = to_json(result);
  return j;
}

std::string headline(const FamilySubject& f, DataType dtype, const Target& target) {
  return f.subject + "  " + to_string(dtype) + ", for " + to_string(target) + "\n\n";
}

}  // namespace

int explain_family(const Request& options) {
  if (!options.show.empty() || !options.pass.empty() || options.naive) {
    throw_user_error("of a range of sizes only the table of kernels is shown", {},
                     "leave --show, --pass and --naive out, or name one size");
  }
  const DataType dtype = dtype_of(options.dtype);
  const Target target = target_of(options.target, options.threads);
  const FamilySubject f = family_subject(options.subject, dtype);
  const ScopedThreads threads(network::race_threads(target));
  FamilyOptions family;
  family.target = target;
  family.race_seconds = options.race_seconds > 0 ? options.race_seconds : kExplainSeconds;
  family.max_kernels = options.max_kernels;
  family.histogram = histogram_of(options.sizes, f.dims);
  const FamilyResult result = choose_family(f.dims, f.args, family);
  if (options.json) {
    std::cout << json_of(f, dtype, target, result).dump(1) << "\n";
  } else {
    std::cout << headline(f, dtype, target) << to_text(result);
  }
  return 0;
}

int tune_family_subject(const Request& request) {
  if (request.subjects.size() != 1 || !request.workloads.empty())
    throw_user_error("a range of sizes is tuned by itself", {},
                     "give one subject, such as matmul:1..2048x768x768");
  if (!request.fleet.empty())
    throw_user_error("a range of sizes is tuned on this machine", {}, "leave --fleet out");
  const DataType dtype = dtype_of(request.dtype.empty() ? "f32" : request.dtype);
  const Target target = target_of(request.target, request.threads);
  const FamilySubject f = family_subject(request.subjects[0], dtype);
  if (!request.json_file.empty() && request.json_file != "-") check_writable(request.json_file);
  const ScopedThreads threads(network::race_threads(target));
  TuneOptions tuning;
  tuning.budget = std::chrono::duration<double>(parse_budget(request.budget));
  if (!request.until.empty()) tuning.until = parse_share(request.until);
  tuning.target = target;
  tuning.log = request.log;
  tuning.max_trials = request.trials;
  tuning.seed = request.seed;
  tuning.warm_start = !request.no_warm_start;
  if (request.round > 0) tuning.batch = request.round;
  FamilyOptions family;
  family.race_seconds = 0.1 * tuning.budget.count();
  family.max_kernels = request.max_kernels;
  family.histogram = histogram_of(request.sizes, f.dims);
  const bool to_stderr = request.json_file == "-";
  std::ostream& out = to_stderr ? std::cerr : std::cout;
  if (!request.quiet) family.progress = [&](const std::string& line) { out << line << std::endl; };
  std::optional<LogFile> log;
  if (!tuning.log.empty()) log.emplace(tuning.log);
  const FamilyResult result = tune_family(f.dims, f.args, family, tuning);
  for (const std::string& problem : result.problems) std::cerr << "warning: " << problem << "\n";
  if (!request.quiet) out << "\n" << headline(f, dtype, target) << to_text(result) << std::flush;
  const std::string json = json_of(f, dtype, target, result).dump(1) + "\n";
  if (to_stderr) {
    std::cout << json << std::flush;
  } else if (!request.json_file.empty()) {
    write_file_atomic(request.json_file, json);
  }
  return result.unwritten > 0 ? 1 : 0;  // as of other subjects, where the log is incomplete
}

}  // namespace heddle::cli
