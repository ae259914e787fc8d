// Features of a program: what the cost model sees of a candidate. See docs/features.md for the
// list, each with its unit; after Ansor (Zheng et al., OSDI 2020, appendix B) with its dead
// columns left out and knob-free program totals added.
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

/// The features of a schedule by the shortest way: its loop nest, not yet partitioned, flattened or
/// unrolled; on the target that the schedule is for. Throws what `lower` would for a schedule that
/// cannot be.
Features schedule_features(const Schedule& schedule, const std::vector<Tensor>& args);

}  // namespace heddle
