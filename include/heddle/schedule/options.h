// AutoSchedulerOptions: what a caller asks of the scheduler, beyond the target.
//
//   Schedule s = create_schedule({D}, Target::host(), {.threads = 2});       // said to one call
//   AutoSchedulerOptionsScope scope({.threads = 2});                         // or to all in a
//   scope Schedule t = create_schedule({D});
//
// The functions of the API that choose (create_schedule, tune, make_template, Network) take the
// options of the scope once, where they are called, and hand them on. A Template and a Schedule
// hold those that they were made with, so that what is built from them later does not depend on
// scopes.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/dag/alternatives.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"

namespace heddle {

/// Overrides for the scheduler. 0 and "" leave the choice to the target or to the rules. Options
/// for another kind of target than the one that is scheduled for are a User error (apply_options).
struct AutoSchedulerOptions {
  int vector_bytes = 0;   ///< CPUs: the widest vectors to use
  int threads = 0;        ///< CPUs: threads to schedule for
  int64_t l1_bytes = 0;   ///< CPUs
  int64_t l2_bytes = 0;   ///< CPUs and GPUs
  int64_t l3_bytes = 0;   ///< CPUs
  int block_threads = 0;  ///< GPUs: most threads a block may have; at least 128
  int64_t block_shared_bytes =
      0;                    ///< GPUs: most shared memory that a block may use; at least 16 KiB
  int max_unroll = 0;       ///< CPUs: largest number of statements an unrolled body may have
  int max_knob_values = 0;  ///< keep at most so many values a knob (around the default)
  std::string force_template = {};  ///< use this meta-template wherever it matches
  /// Take the schedule of a record (the user's log, tophub) where there is one for the declaration
  /// and target. Records answer only while nothing above but `threads` and `vector_bytes` is set,
  /// nor allow_tf32: the other options ask for something that the record's maker did not.
  bool use_records = true;
  /// Let the static choice and the tuner rewrite the graph (dag/alternatives.h), by rules whose
  /// rounding errors are at most `max_error_growth` times the direct form's. The default lets in
  /// what stays within the tolerance that results are checked with (driver/tolerance.h); 1 forbids
  /// whatever rounds worse than the declaration as it was written.
  bool use_alternatives = true;
  double max_error_growth = AlternativePolicy().max_error_growth;
  /// Let an installed ChoiceSource (schedule/choice.h) choose in place of the analytic rules.
  bool use_heuristics = true;
  /// Let products of f32 on a GPU round their operands to tf32 (10 bits of mantissa in place of 23)
  /// and run on the tensor cores, as torch.backends.cuda.matmul.allow_tf32 does. Off: f32 means
  /// f32. A CPU has no use for the permission.
  bool allow_tf32 = false;
  std::string record_log = {};  ///< the user's log, in place of HEDDLE_LOG_FILE

  bool operator==(const AutoSchedulerOptions&) const = default;
};

/// Sets the options of this thread until destroyed; scopes nest.
class AutoSchedulerOptionsScope {
 public:
  explicit AutoSchedulerOptionsScope(AutoSchedulerOptions options);
  ~AutoSchedulerOptionsScope();
  AutoSchedulerOptionsScope(const AutoSchedulerOptionsScope&) = delete;
  AutoSchedulerOptionsScope& operator=(const AutoSchedulerOptionsScope&) = delete;

 private:
  AutoSchedulerOptions saved_;
};

/// The options of this thread's innermost scope. Only default arguments of the API call it.
const AutoSchedulerOptions& current_auto_scheduler_options();

/// Throws a User error for a value that no target takes, or a meta-template that there is none of.
void check_options(const AutoSchedulerOptions& options);

AlternativePolicy alternative_policy(const AutoSchedulerOptions& options);

/// `target` as the options limit it; applied twice, it is the same. Throws a User error for a
/// target of unknown kind, for an option that says nothing about targets of this kind, and for a
/// limit that the GPU does not reach or that is too low for any schedule.
Target apply_options(const Target& target, const AutoSchedulerOptions& options);

/// The options that differ from the defaults, by name; an empty object when none do. Where records
/// are looked for is left out: it is of this machine, and no part of what was made.
Json to_json(const AutoSchedulerOptions& options);
/// Throws a User error for a name or a value that is none.
AutoSchedulerOptions options_from_json(const Json& json);

}  // namespace heddle
