// heddle records: inspects and tidies logs of measurements.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "commands.h"
#include "heddle/records/database.h"
#include "heddle/records/record_log.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "records/records_table.h"
#include "records/train.h"
#include "records/transfers.h"
#include "records/upgrade.h"
#include "records/why.h"
#include "support/files/file.h"

namespace heddle::cli {
namespace {

namespace fs = std::filesystem;

std::string count(size_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

/// The contents of several logs.
struct Logs {
  std::vector<Record> records;
  std::vector<std::string> unknown;  ///< lines that only another version can read, each once
};

/// Reads all files. Lines that cannot be read are reported and skipped.
Logs read_logs(const std::vector<std::string>& files, bool records_needed) {
  Logs all;
  for (const std::string& file : files) {
    std::error_code error;
    if (!fs::exists(file, error)) {
      throw_user_error("there is no file '" + file + "'", {}, "name logs of records (*.jsonl)");
    }
    if (fs::is_directory(file, error)) {
      throw_user_error("'" + file + "' is a folder", {}, "name the files in it");
    }
    ReadResult read = read_records(file);
    for (const std::string& problem : read.problems) std::cerr << "warning: " << problem << "\n";
    const bool only_torn =
        read.problems.size() == 1 && read.problems[0].ends_with("torn last line skipped");
    const bool kept = !records_needed && !read.unknown.empty();
    if (read.records.empty() && !read.problems.empty() && !only_torn && !kept) {
      throw_user_error("'" + file + "' has no record that can be read", {},
                       "a log has one JSON object a line; see docs/reference/records.md");
    }
    for (Record& r : read.records) all.records.push_back(std::move(r));
    for (std::string& line : read.unknown) {
      if (std::find(all.unknown.begin(), all.unknown.end(), line) == all.unknown.end()) {
        all.unknown.push_back(std::move(line));
      }
    }
  }
  return all;
}

std::vector<Record> read_all(const std::vector<std::string>& files) {
  return read_logs(files, true).records;
}

std::vector<std::string> files_of(const Request& o) {
  return o.logs.empty() ? tophub_files() : o.logs;
}

void write_log(const std::string& path, const std::vector<Record>& records,
               const std::vector<std::string>& unknown = {}) {
  std::string lines = to_lines(records);
  for (const std::string& line : unknown) lines += line + "\n";
  try {
    write_file_atomic(path, lines);
  } catch (const Error& e) {
    throw_user_error(e.message, {}, "name a file in a folder that is there and may be written");
  }
}

/// Lines that were not understood are kept, and this is reported.
void say_kept(const std::vector<std::string>& unknown) {
  if (unknown.empty()) return;
  std::cout << "kept " << count(unknown.size(), "line") << " that this Heddle cannot read\n";
}

// Groups records by task. Records belong to one task where they answer for each other: the
// declaration is the same and the targets match. Tasks are in the order of their first record.
std::vector<std::vector<const Record*>> tasks_of(const std::vector<Record>& records) {
  std::vector<std::vector<const Record*>> tasks;
  std::multimap<uint64_t, size_t> known;
  for (const Record& r : records) {
    auto [it, end] = known.equal_range(r.structural_hash);
    while (it != end && !target_matches(tasks[it->second].front()->target, r.target)) ++it;
    if (it == end) {
      known.emplace(r.structural_hash, tasks.size());
      tasks.push_back({&r});
    } else {
      tasks[it->second].push_back(&r);
    }
  }
  return tasks;
}

/// The valid records of a task, best first.
std::vector<const Record*> ranked(const std::vector<const Record*>& task) {
  RecordDatabase db;
  std::map<std::string, const Record*> by_origin;
  for (const Record* r : task) {
    db.add(*r);
    by_origin[r->origin] = r;
  }
  std::vector<const Record*> out;
  for (const Record* r : db.ranked(task.front()->structural_hash, task.front()->target)) {
    out.push_back(by_origin.at(r->origin));
  }
  return out;
}

/// Gives the first of `kept`, records of the task, the declaration that another one of them has.
void keep_declaration(const std::vector<const Record*>& task, std::span<Record> kept) {
  const auto has = [](const Record& r) { return !r.declaration.is_null(); };
  if (kept.empty() || std::any_of(kept.begin(), kept.end(), has)) return;
  const auto from =
      std::find_if(task.begin(), task.end(), [&](const Record* r) { return has(*r); });
  if (from != task.end()) kept.front().declaration = (*from)->declaration;
}

std::vector<Record> best_of(const std::vector<Record>& all) {
  std::vector<Record> best;
  for (const auto& task : tasks_of(all)) {
    const std::vector<const Record*> order = ranked(task);
    if (order.empty()) continue;
    best.push_back(*order.front());
    keep_declaration(task, std::span(best).last(1));
  }
  return best;
}

void print(const std::vector<Record>& records, bool json) {
  if (!json) {
    std::cout << records_table(records) << count(records.size(), "record") << "\n";
    return;
  }
  Json all = Json::array();
  for (const Record& r : records) {
    Json j = r.to_json();
    j["median_seconds"] = r.median();
    j["origin"] = r.origin;
    all.push_back(std::move(j));
  }
  std::cout << all.dump(1) << "\n";
}

}  // namespace

int list_records(const Request& o) {
  std::vector<Record> records = read_all(files_of(o));
  std::erase_if(records,
                [&](const Record& r) { return r.subject.find(o.filter) == std::string::npos; });
  print(records, o.json);
  return 0;
}

int best_records(const Request& o) {
  std::optional<RecordLogLock> lock;  // the output may be one of the files
  if (!o.output.empty()) lock.emplace(o.output);
  const std::vector<Record> all = read_all(files_of(o)), chosen = best_of(all);
  if (!o.output.empty()) {
    write_log(o.output, chosen);
    if (!o.json) {
      std::cout << "wrote " << o.output << ": " << count(chosen.size(), "record") << " of "
                << all.size() << "\n";
    }
  }
  if (o.output.empty() || o.json) print(chosen, o.json);
  return 0;
}

int merge_records(const Request& o) {
  const RecordLogLock lock(o.output);  // the output may be an input to which a tuner appends
  Logs all = read_logs(o.logs, false);
  std::vector<Record> kept;
  std::set<std::string> seen;
  for (Record& r : all.records) {
    if (seen.insert(r.to_json().dump()).second) kept.push_back(std::move(r));
  }
  write_log(o.output, kept, all.unknown);
  std::cout << "wrote " << o.output << ": " << count(kept.size(), "record") << ", "
            << count(all.records.size() - kept.size(), "duplicate") << " dropped\n";
  say_kept(all.unknown);
  return 0;
}

int prune_records(const Request& o) {
  const RecordLogLock lock(o.output);
  const Logs logs = read_logs(o.logs, false);
  const std::vector<Record>& all = logs.records;
  std::vector<Record> kept;
  size_t failed = 0, tasks = 0;
  for (const auto& task : tasks_of(all)) {
    std::vector<const Record*> order = ranked(task);
    failed += task.size() - order.size();
    tasks += order.empty() ? 0 : 1;
    if (order.size() > static_cast<size_t>(o.keep)) order.resize(static_cast<size_t>(o.keep));
    // Records keep the order of the logs, so that later ones still win ties.
    std::sort(order.begin(), order.end());
    for (const Record* r : order) kept.push_back(*r);
    keep_declaration(task, std::span(kept).last(order.size()));
  }
  write_log(o.output, kept, logs.unknown);
  const size_t dropped = all.size() - kept.size();
  std::cout << "wrote " << o.output << ": " << count(kept.size(), "record") << " of "
            << count(tasks, "task") << "; dropped " << dropped << " (" << dropped - failed
            << " slower, " << failed << " failed)\n";
  say_kept(logs.unknown);
  return 0;
}

int upgrade_records(const Request& o) {
  const RecordLogLock lock(o.output);
  Logs logs = read_logs(o.logs, false);
  std::vector<Record>& all = logs.records;
  size_t incomplete = 0;
  for (Record& r : all) incomplete += complete(r) ? 0 : 1;
  write_log(o.output, all, logs.unknown);
  std::cout << "wrote " << o.output << ": " << count(all.size(), "record") << " of version "
            << Record::kVersion << "\n";
  say_kept(logs.unknown);
  if (incomplete > 0) {
    std::cout << count(incomplete, "record")
              << " without a shape class, since no subject that we know declares the same: exact "
                 "hits only\n";
  }
  return 0;
}

int train_on_records(const Request& o) {
  train_model(read_all(o.logs), o.output);
  return 0;
}

int why_record(const Request& o) {
  return run_why(o, o.logs.empty() ? std::vector<Record>() : read_all(o.logs));
}

int race_on_near_cases(const Request& o) { return race_transfers(o, read_all(files_of(o))); }

}  // namespace heddle::cli
