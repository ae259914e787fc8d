// RecordDatabase: records by declaration and target, and the best of each.
//
//   RecordDatabase db;
//   db.add_file("tophub/zen3.jsonl");
//   db.add_file("mine.jsonl", 1);                    // a higher rank overrides tophub
//   if (const Record* r = db.best(dag.structural_hash(), target)) ...
//   std::cout << db.why_no_hit(dag, target);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/records/record.h"

namespace heddle {

/// How far the case of a record is from another one. Each part is 0 where they agree in it, and
/// infinite where they cannot be compared.
struct Nearness {
  double sizes = 0;    ///< sum over extents of |log2(a/b)|
  double threads = 0;  ///< |log2(a/b)| of the numbers of threads, of CPUs
  double chip = 0;     ///< chip_distance of the targets

  double total() const { return sizes + threads + chip; }
  bool operator==(const Nearness&) const = default;
};
/// "2.00 (sizes 1.00, threads 1.00)".
std::string to_string(const Nearness& by);

/// The best record of a case, and how near that case is.
struct Neighbour {
  const Record* record = nullptr;
  Nearness by;
};

/// Records in memory, by declaration and target.
class RecordDatabase {
 public:
  RecordDatabase();
  ~RecordDatabase();
  RecordDatabase(RecordDatabase&&) noexcept;
  RecordDatabase& operator=(RecordDatabase&&) noexcept;

  /// Valid records of a higher rank are better than all records of a lower one, whatever their
  /// times, which may come from another machine. A user's own log therefore overrides shipped
  /// records.
  void add(Record record, int rank = 0);
  /// Adds the records of a log. Returns the problems of reading (see ReadResult::problems). Throws
  /// a Runtime error for a missing file.
  std::vector<std::string> add_file(const std::string& path, int rank = 0);

  const std::vector<Record>& records() const;
  /// The best valid record of this declaration for this target, or nullptr. A higher Verdict
  /// precedes a lower one, whatever the times. Among Won and Chosen records the latest is the best,
  /// among others the fastest; later additions win ties.
  const Record* best(uint64_t structural_hash, const Target& target) const;
  /// The valid records of this declaration and target, best first.
  std::vector<const Record*> ranked(uint64_t structural_hash, const Target& target) const;
  /// The best record of each other case of the same structure, nearest first: other extents, numbers
  /// of threads and chips. Of equally near cases the one added first comes first. The time is linear
  /// in the number of cases of the structure, not of their records.
  std::vector<Neighbour> neighbours(const ComputeDag& dag, const Target& target, int most) const;
  /// All records of a declaration and target, in the order added.
  std::vector<const Record*> of(uint64_t structural_hash, const Target& target) const;
  /// One paragraph that says why no record is of this case: there is none of this structure, none of
  /// these extents (it names the nearest), none for this target (it names others), or only failed
  /// ones.
  std::string why_no_hit(const ComputeDag& dag, const Target& target) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether records for `have` apply to `want`. They need the same kind, CPU, triple, features (in
/// any order), vectors and threads. Cache sizes may differ, because virtual machines report them
/// inconsistently. GPUs need the same chip, architecture and number of SMs.
bool target_matches(const Target& have, const Target& want);

/// How much two machines differ, apart from their threads: the sum of |log2(a/b)| of what schedules
/// depend on (vectors, registers, caches; multiprocessors, bandwidth, shared memory), and constants
/// for another name or architecture. 0 where target_matches but for the threads; infinite for another
/// kind or triple.
double chip_distance(const Target& a, const Target& b);

/// The schedule of a record on `dag` for `target`. It comes from the template where its version is
/// the same and it still offers the config, else from replaying the steps. `provenance` is
/// `describe(record)`. Throws a User error that says why neither works.
Schedule schedule_of(const Record& record, const ComputeDag& dag, const Target& target,
                     const AutoSchedulerOptions& options = {});

/// The steps of a record on `dag`, for `target`, without any template. Throws as
/// Schedule::from_json does.
Schedule replay(const Record& record, const ComputeDag& dag, const Target& target,
                const AutoSchedulerOptions& options = {});

/// "record of dense.jsonl:17, 41.2 us"; the machine where it comes from no file.
std::string describe(const Record& record);

}  // namespace heddle
