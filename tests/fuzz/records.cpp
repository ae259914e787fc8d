// A log of records, and the search for the best of them.
#include "fuzz/fuzz_target.h"
#include "fuzz/scratch.h"
#include "heddle/records/database.h"
#include "heddle/records/record_log.h"
#include "heddle/support/error.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle::fuzz {

void read_record_lines(std::string_view bytes) {
  const ReadResult read = read_records(scratch_file("log.jsonl", bytes));
  // A reader reports unreadable lines and continues. "internal error" must not be among the
  // reports, unless it quotes the log.
  constexpr std::string_view kBug = "internal error";
  const bool quoted = bytes.find(kBug) != std::string_view::npos;
  for (const std::string& problem : read.problems) {
    HEDDLE_ICHECK(quoted || problem.find(kBug) == std::string::npos, problem);
  }
  const std::string written = to_lines(read.records);
  const ReadResult again = read_records(scratch_file("again.jsonl", written));
  HEDDLE_ICHECK(again.problems.empty(),
                "a record that was written cannot be read: " + again.problems[0]);
  HEDDLE_ICHECK(to_lines(again.records) == written, "a record that was read is written as another");
  RecordDatabase database;
  database.add_file(scratch_folder() + "/again.jsonl");
  for (const Record& record : read.records) {
    database.ranked(record.structural_hash, record.target);
    describe(record);
  }
  if (!read.problems.empty()) throw_user_error(read.problems[0]);
}

std::vector<std::string> record_seeds() {
  std::vector<std::string> seeds;
  for (const char* log : {"cuda-h200", "llvm-znver3"}) {
    const std::string text = read_file(source_dir() + "/tophub/" + log + ".jsonl");
    const size_t first = text.find('\n'), second = text.find('\n', first + 1);
    seeds.push_back(text.substr(0, first));
    seeds.push_back(text.substr(0, second));
  }
  return seeds;
}

}  // namespace heddle::fuzz
