// heddle report: writes the contents of tuning logs as one HTML file.
#include <algorithm>
#include <charconv>
#include <iostream>
#include <iterator>
#include <set>

#include "commands.h"
#include "common/figures.h"
#include "common/machine.h"
#include "common/output_file.h"
#include "heddle/records/record_log.h"
#include "heddle/support/error.h"
#include "report/log_data.h"
#include "report/sections.h"
#include "support/files/file.h"

namespace heddle::cli {
namespace {

// "matmul:512x512x512=3" as a subject and a number. Subjects may contain '=', so the last one
// counts.
std::pair<std::string, double> calls_of(const std::string& text) {
  const size_t equals = text.rfind('=');
  double n = 0;
  if (equals != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [after, error] = std::from_chars(text.data() + equals + 1, end, n);
    if (error == std::errc() && after == end && n > 0) return {text.substr(0, equals), n};
  }
  throw_user_error("--calls cannot be '" + text + "'", {},
                   "write a task and how often it is called, as in matmul:512x512x512=3");
}

std::vector<Roof> roofs_of(const Request& request, const LogData& data) {
  if ((request.peak_gflops > 0) != (request.bandwidth_gb > 0)) {
    throw_user_error("--peak and --bandwidth only say something together", {},
                     "give both, or --ceilings to measure them here");
  }
  if (request.peak_gflops > 0) return {{0, request.peak_gflops, request.bandwidth_gb}};
  if (!request.ceilings) return {};
  std::set<int> threads;
  for (const Record& r : data.records) threads.insert(r.target.cores);
  Machine machine;
  std::vector<Roof> roofs;
  for (const int n : threads) {
    roofs.push_back({n, machine.fma(n, f32).per_second * 1e-9,
                     machine.bandwidth(Bound::Read, n, int64_t{64} << 20).per_second * 1e-9});
  }
  return roofs;
}

void check_calls(const LogData& data, const std::vector<std::pair<std::string, double>>& calls) {
  std::vector<std::string> names;
  for (const Record& r : data.records) names.push_back(r.subject);
  for (const auto& [name, n] : calls) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw_user_error("--calls names '" + name + "', of which there are no records", {},
                     "`heddle report` without it shows what there is");
  }
}

/// What the page is made of.
void say_what(const LogData& data, const std::string& output) {
  std::cout << output << ": " << count_text(static_cast<int64_t>(data.records.size()), "record")
            << " of " << count_text(static_cast<int64_t>(data.tasks.size()), "task");
  if (!data.picks.empty()) {
    std::cout << ", " << count_text(static_cast<int64_t>(data.picks.size()), "pick");
  }
  if (!data.families.empty()) {
    std::cout << ", " << data.families.size()
              << (data.families.size() == 1 ? " family" : " families");
  }
  if (!data.problems.empty()) {
    std::cout << ", " << count_text(static_cast<int64_t>(data.problems.size()), "line")
              << " could not be read";
  }
  std::cout << std::endl;
}

}  // namespace

int run_report(const Request& request) {
  if (request.logs.empty() && request.picks.empty() && request.families.empty() &&
      request.audits.empty()) {
    throw_user_error("there is no log to report", {},
                     "name logs of `heddle tune`, a log of picks with --picks, a family with "
                     "--family, or an audit with --audit");
  }
  const bool to_stdout = request.output == "-";
  if (!to_stdout) check_writable(request.output);
  std::vector<std::pair<std::string, double>> calls;
  for (const std::string& text : request.calls) calls.push_back(calls_of(text));
  std::vector<ReadResult> read;
  for (const std::string& log : request.logs) read.push_back(read_records(log));
  // Logs are sorted by their beginning.
  auto begin = [](const ReadResult& r) { return r.records.empty() ? 0 : r.records[0].unix_time; };
  std::stable_sort(read.begin(), read.end(),
                   [&](const ReadResult& a, const ReadResult& b) { return begin(a) < begin(b); });
  std::vector<Record> records;
  std::vector<std::string> problems;
  for (ReadResult& r : read) {
    std::move(r.records.begin(), r.records.end(), std::back_inserter(records));
    std::move(r.problems.begin(), r.problems.end(), std::back_inserter(problems));
  }
  std::vector<Json> families = take_families(records);
  LogData data = log_data(std::move(records), calls);
  data.families = std::move(families);
  check_calls(data, calls);
  data.files = request.logs;
  for (const std::string& path : request.picks) {
    data.files.push_back(path);
    std::vector<PickRow> rows = read_picks(path, problems);
    std::move(rows.begin(), rows.end(), std::back_inserter(data.picks));
  }
  for (const std::string& path : request.families) {
    data.files.push_back(path);
    std::ranges::move(read_families(path), std::back_inserter(data.families));
  }
  for (const std::string& path : request.audits) {
    data.files.push_back(path);
    data.audits.push_back(read_audit(path));
  }
  data.problems = std::move(problems);
  const std::string page = report_page(data, roofs_of(request, data));
  if (to_stdout) {
    std::cout << page << std::flush;
    return 0;
  }
  write_file_atomic(request.output, page);
  say_what(data, request.output);
  return 0;
}

}  // namespace heddle::cli
