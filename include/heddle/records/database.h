// RecordDatabase: records by declaration and target, and the best of each.
//
//   RecordDatabase db;
//   db.add_file("tophub/zen3.jsonl");
//   db.add_file("mine.jsonl");                       // what was added later wins ties
//   if (const Record* r = db.best(dag.structural_hash(), target)) ...
//   std::cout << db.why_no_hit(dag, target);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/records/record.h"

namespace heddle {

class RecordDatabase {
 public:
  RecordDatabase();
  ~RecordDatabase();
  RecordDatabase(RecordDatabase&&) noexcept;
  RecordDatabase& operator=(RecordDatabase&&) noexcept;

  void add(Record record);
  /// Returns what could not be read (see ReadResult::problems).
  std::vector<std::string> add_file(const std::string& path);

  const std::vector<Record>& records() const;
  /// The fastest valid record of this declaration for this target; later additions win ties.
  /// Records of a re-race (protocol "race") outrank those of screening. nullptr when none.
  const Record* best(uint64_t structural_hash, const Target& target) const;
  /// Best records of other shapes of the same structure and target, nearest first: by the sum over
  /// extents of |log2(a/b)|.
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

/// Do records of `have` apply to `want`? Same kind, CPU, features and threads; cache sizes may
/// differ (virtual machines report them at will).
bool target_matches(const Target& have, const Target& want);

/// The schedule a record stands for, on `dag`: through the template when its version is the same,
/// else by replaying the steps. Throws an Error that says why neither works.
Schedule schedule_of(const Record& record, const ComputeDag& dag, const Target& target);

}  // namespace heddle
