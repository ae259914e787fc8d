// AutoSchedulerOptions: requests of a caller to the scheduler, beyond the target.
//
//   Schedule s = create_schedule({D}, Target::host(), {.threads = 2});   // for one call
//   AutoSchedulerOptionsScope scope({.threads = 2});                     // for all in a scope
//   Schedule t = create_schedule({D});
//
// The functions of the API that choose (create_schedule, tune, make_template, Network) read the
// options of the scope once, when they are called. A Template and a Schedule hold the options that
// they were made with, so that later builds do not depend on scopes.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/dag/alternatives.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"

namespace heddle {

/// Overrides for the scheduler. 0 and "" leave the choice to the target or to the rules. An option
/// for another kind of target is a User error (apply_options).
struct AutoSchedulerOptions {
  int vector_bytes = 0;   ///< CPUs: the widest vectors to use
  int threads = 0;        ///< CPUs: threads to schedule for
  int64_t l1_bytes = 0;   ///< CPUs
  int64_t l2_bytes = 0;   ///< CPUs and GPUs
  int64_t l3_bytes = 0;   ///< CPUs
  int block_threads = 0;  ///< GPUs: largest number of threads of a block; at least 128
  int64_t block_shared_bytes =
      0;                    ///< GPUs: most shared memory that a block may use; at least 16 KiB
  int max_unroll = 0;       ///< CPUs: largest number of statements of an unrolled body
  int max_knob_values = 0;  ///< largest number of values of a knob (around the default)
  std::string force_template = {};  ///< use this meta-template wherever it matches
  /// Use the schedule of a record (the user's log, tophub) where there is one for the declaration
  /// and target. Records are used only while no option above except `threads` and `vector_bytes` is
  /// set, and allow_tf32 is not, because records were not made for other options.
  bool use_records = true;
  /// Let the static choice and the tuner rewrite the graph (dag/alternatives.h), by rules whose
  /// rounding errors are at most `max_error_growth` times the direct form's. The default allows
  /// rules that stay within the tolerance of checks (driver/tolerance.h). 1 forbids every rule that
  /// rounds worse than the original declaration.
  bool use_alternatives = true;
  double max_error_growth = AlternativePolicy().max_error_growth;  ///< see use_alternatives
  /// Also consider rewrites whose results are not equal to the declaration's even without rounding,
  /// or whose errors exceed the tolerance of checks (Numerics::Approximate).
  bool allow_approximate = false;
  /// Let an installed ChoiceSource (schedule/choice.h) choose in place of the analytic rules.
  bool use_heuristics = true;
  /// Let products of f32 on a GPU round their operands to tf32 (10 bits of mantissa in place of 23)
  /// and run on the tensor cores, as torch.backends.cuda.matmul.allow_tf32 does. If false, f32
  /// means f32. It has no effect on CPUs.
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

/// Throws a User error for a value that no target accepts, or for an unknown meta-template.
void check_options(const AutoSchedulerOptions& options);

/// The part of the options that concerns alternatives.
AlternativePolicy alternative_policy(const AutoSchedulerOptions& options);

/// `target` as the options limit it. Applying them twice has no further effect. Throws a User error
/// for a target of unknown kind, for an option that does not apply to this kind, and for a limit
/// that the GPU does not reach or that is too low for any schedule.
Target apply_options(const Target& target, const AutoSchedulerOptions& options);

/// The options that differ from the defaults, by name; an empty object where none do. The paths of
/// records are left out, because they belong to this machine and not to the schedule.
Json to_json(const AutoSchedulerOptions& options);
/// Reads options. Throws a User error for an unknown name or an invalid value.
AutoSchedulerOptions options_from_json(const Json& json);

}  // namespace heddle
