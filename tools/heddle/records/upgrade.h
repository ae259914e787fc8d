// Restores the properties of a record's declaration from its subject.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "heddle/records/record.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// The declaration of a record whose subject names one. Records do not contain the type of the
/// inputs; the structural hash identifies it.
std::optional<Problem> problem_of(const Record& record);

/// The declarations of records: those that the records of their logs hold, else those that their
/// subjects name.
class Declarations {
 public:
  /// `records` have to outlive it.
  explicit Declarations(const std::vector<Record>& records);
  std::optional<Problem> of(const Record& record) const;

 private:
  std::map<uint64_t, const Json*> by_hash_;
};

/// Fills in the members that a record of an older form lacks. Returns false when the subject names
/// no declaration with its structural hash (an operator that was changed, or a name of the caller).
bool complete(Record& record);

}  // namespace heddle::cli
