// Evidence of transfers: what schedules of records gained on cases near their own.
//
// tophub/<kind>-<chip>.transfers has a line for each race of a record's schedule against the rule's
// choice, on a case that has no record of its own, on that chip. A record answers for a near case
// only where such races say that it wins (docs/reference/records.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/records/database.h"

namespace heddle::records {

/// One race.
struct Transfer {
  std::string subject;  ///< the case
  Target target;
  std::string template_name;  ///< of the record
  std::string from;           ///< subject and target of the record, for people
  Nearness by;
  bool agreed = false;  ///< the cost model and the estimate both preferred the record's schedule
  double gain = 0;      ///< time of the rule's choice over that of the record's schedule; 0: failed
};

/// The races on one chip.
struct Transfers {
  static constexpr int kVersion = 1;
  std::string machine = {}, build = {};  ///< that raced
  std::string model = {};                ///< file of the cost model that was asked
  double rank_correlation = 0;  ///< of what it predicted with what was measured, over all races
  std::vector<Transfer> races = {};
};

std::string to_text(const Transfers& transfers);
/// Reads what to_text writes. Everything else throws a User error that names `source` and the line.
Transfers parse_transfers(std::string_view text, const std::string& source);

/// What races say of a transfer.
struct TransferProof {
  int races = 0;
  double mean = 0;   ///< geometric mean of the gains
  double least = 0;  ///< gain
};

/// The proof that a record of a template wins at this distance. The races that count are those of
/// the template that differ in the same respects (sizes, threads, chip) and were agreed. Of these,
/// the nearest up to some distance, `by` included, have to be at least eight, to gain 2 % in the
/// geometric mean, and to lose at most 3 % each. Empty where they are not.
std::optional<TransferProof> proof_of_transfer(const std::vector<Transfer>& races,
                                               const std::string& template_name,
                                               const Nearness& by);

}  // namespace heddle::records
