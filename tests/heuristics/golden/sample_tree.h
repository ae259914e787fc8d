// clang-format off
// Written by generate_table (heuristics/train/generate_table.h).
//
// heuristic sample, version 1
// machine   a machine
// target    llvm -mcpu=znver3
// date      2026-11-22
// from      120 problems, 350 measurements, seed 1
// training  {"depth":2,"leaf_size":4,"folds":5,"problems_left_out":0,"held_out_over_best":1.007878,"rule_over_best":1.100877}
#pragma once

#include <string_view>

#include "heddle/support/decision_tree.h"

namespace heddle::trees {
namespace sample_tree_parts {

inline constexpr std::string_view values_3[] = {
    "nhwc",
    "nchw",
    "blocked",
};

inline constexpr TreeFeature features[] = {
    {"rows", FeatureKind::Numeric, 0.8, 1232.5, 0, {}},
    {"columns", FeatureKind::Numeric, 6.4, 5081.25, 0, {}},
    {"packed", FeatureKind::Boolean, 0.0, 1.0, 0, {}},
    {"layout", FeatureKind::Categorical, 0.0, 0.0, 0x7U, values_3},
};

inline constexpr std::string_view choices[] = {
    "{\"tile\":2}",
    "{\"tile\":4}",
    "{\"tile\":6}",
};

inline constexpr RankedChoice ranking[] = {
    {0, 1.000582},
    {-1, 1.050338},
    {1, 1.262242},
    {2, 1.341199},
    {2, 1.0},
    {-1, 1.432278},
    {1, 1.432278},
    {0, 1.771981},
    {-1, 1.017259},
    {1, 1.017259},
    {2, 1.193599},
    {0, 1.642632},
};

inline constexpr TreeNode nodes[] = {
    {0, 1, 2, 46.5, 0},
    {-1, 0, 0, 0.0, 0},
    {3, 3, 4, 0.0, 0x1U},
    {-1, 1, 0, 0.0, 0},
    {-1, 2, 0, 0.0, 0},
};

inline constexpr TreeLeaf leaves[] = {
    {LeafVerdict::Choice, 61, 0.000581, 0.002087, -0.048531, -0.032735, 0.0, 0, 4},
    {LeafVerdict::Choice, 22, 0.0, 0.003667, -0.359266, -0.317681, -0.190888, 4, 4},
    {LeafVerdict::Rule, 37, 0.017112, 0.030855, 0.0, 0.006441, 0.0, 8, 4},
};

}  // namespace sample_tree_parts

inline constexpr TreeTable sample_tree = {
    {"sample", "1", "a machine", "llvm -mcpu=znver3", "2026-11-22", 120, 350, 0x1U},
    {0.9, 0.02, 0.5},
    sample_tree_parts::features,
    sample_tree_parts::nodes,
    sample_tree_parts::leaves,
    sample_tree_parts::ranking,
    sample_tree_parts::choices,
};

}  // namespace heddle::trees
