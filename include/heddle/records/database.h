// RecordDatabase: records by declaration and target, and the best of each.
//
//   RecordDatabase db;
//   db.add_file("tophub/zen3.jsonl");
//   db.add_file("mine.jsonl", 1);                    // of a higher rank: whatever tophub says
//   if (const Record* r = db.best(dag.structural_hash(), target)) ...
//   std::cout << db.why_no_hit(dag, target);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/records/record.h"

namespace heddle {

/// What a record's protocol says of how it came to be, the least first.
enum class Verdict {
  Screened,  ///< timed by itself
  Raced,     ///< "race ...": timed beside other leaders, and did not win
  Chosen,    ///< "chosen ...": no measurement, but what tuning returned without a race
  Won,       ///< "race won ..."
};
Verdict verdict_of(const Record& record);

class RecordDatabase {
 public:
  RecordDatabase();
  ~RecordDatabase();
  RecordDatabase(RecordDatabase&&) noexcept;
  RecordDatabase& operator=(RecordDatabase&&) noexcept;

  /// Valid records of a higher rank are better than all of a lower one, whatever their times, which
  /// may be another machine's: so that a user's own log overrides what was shipped.
  void add(Record record, int rank = 0);
  /// Returns what could not be read (see ReadResult::problems). A missing file is a Runtime error.
  std::vector<std::string> add_file(const std::string& path, int rank = 0);

  const std::vector<Record>& records() const;
  /// The fastest valid record of this declaration for this target; later additions win ties.
  /// The higher Verdict comes first, whatever the times; of winners, and of what was chosen, the
  /// latest. nullptr when none.
  const Record* best(uint64_t structural_hash, const Target& target) const;
  /// The valid records of this declaration and target, best first.
  std::vector<const Record*> ranked(uint64_t structural_hash, const Target& target) const;
  /// The best record of each other shape of the same structure and target, nearest first: by the
  /// sum over extents of |log2(a/b)|; among equally near ones the first added.
  std::vector<const Record*> nearest(const ComputeDag& dag, const Target& target, int most) const;
  /// All records of a declaration and target, in the order added.
  std::vector<const Record*> of(uint64_t structural_hash, const Target& target) const;
  /// One paragraph: no record of this structure at all / of these extents (the nearest are ...) /
  /// for this target (there are some for ...) / only failed ones.
  std::string why_no_hit(const ComputeDag& dag, const Target& target) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Do records of `have` apply to `want`? Same kind, CPU, triple, features (in any order), vectors
/// and threads; cache sizes may differ (virtual machines report them at will). Of GPUs: the same
/// chip, architecture and number of SMs.
bool target_matches(const Target& have, const Target& want);

/// The schedule a record stands for, on `dag` and for `target`: through the template when its
/// version is the same, else (or where the template no longer offers this config) by replaying the
/// steps. `provenance` is `describe(record)`. Throws a User error that says why neither works.
Schedule schedule_of(const Record& record, const ComputeDag& dag, const Target& target,
                     const AutoSchedulerOptions& options = {});

/// The steps of a record on `dag`, for `target`, without any template. Throws as
/// Schedule::from_json does.
Schedule replay(const Record& record, const ComputeDag& dag, const Target& target,
                const AutoSchedulerOptions& options = {});

/// "record of dense.jsonl:17, 41.2 us"; the machine where it comes from no file.
std::string describe(const Record& record);

}  // namespace heddle
