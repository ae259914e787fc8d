// Features of a program: the input of the cost model for a candidate. docs/reference/features.md lists them
// with their units. They follow Ansor (Zheng et al., OSDI 2020, appendix B), without columns that
// are always zero and with totals of the whole program added.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/ir/stmt.h"
#include "heddle/schedule/schedule.h"
#include "heddle/target/target.h"

namespace heddle {

/// A row of fixed width for a program. Magnitudes are log2(1 + x).
using Features = std::vector<float>;

/// Names of the columns, in order ("store0.flop.mad", "total.bytes", ...), and their units.
struct FeatureColumn {
  std::string name, unit, about;
};
/// Programs for GPUs ("cuda") have columns of their own.
const std::vector<FeatureColumn>& feature_columns(std::string_view target_kind = "llvm");

/// Extracts from a lowered function (any stage of the pipeline from the loop nest on: annotated
/// loops and vector expressions give the same numbers). Thread-safe, no global state.
Features extract_features(const LoweredFunction& program, const Target& target);

/// The features of a schedule for its target, from its loop nest before it is partitioned,
/// flattened or unrolled. This is the fastest way. Throws the errors of `lower` for a schedule that
/// cannot be lowered.
Features schedule_features(const Schedule& schedule, const std::vector<Tensor>& args);

}  // namespace heddle
