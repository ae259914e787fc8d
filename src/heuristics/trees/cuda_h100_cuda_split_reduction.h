// clang-format off
// Written by generate_table (heuristics/train/generate_table.h).
//
// heuristic cuda_split_reduction, version 2
// machine   h100
// target    cuda -gpu=h100
// date      2026-11-27
// from      339 problems, 5779 measurements, seed 1
// training  {"depth":2,"leaf_size":4,"folds":5,"problems_left_out":0,"held_out_over_best":1.027424,"rule_over_best":1.070979,"machines_left_out":[{"machine":"h200","problems":88,"rule_over_best":1.0565,"tree_over_best":1.0237,"tree_over_rule":0.9689,"unsure":0.1023}]}
#pragma once

#include <string_view>

#include "heddle/support/decision_tree.h"

namespace heddle::trees {
namespace cuda_h100_cuda_split_reduction_parts {

inline constexpr TreeFeature features[] = {
    {"by_rows", FeatureKind::Boolean, 0.0, 1.0, 0, {}},
    {"by_columns", FeatureKind::Boolean, 0.0, 1.0, 0, {}},
    {"extent", FeatureKind::Numeric, 12.8, 1310720.0, 0, {}},
    {"cut_extent", FeatureKind::Numeric, 12.8, 1310720.0, 0, {}},
    {"cuts_row", FeatureKind::Boolean, 1.0, 1.0, 0, {}},
    {"columns", FeatureKind::Numeric, 0.8, 163840.0, 0, {}},
    {"lanes", FeatureKind::Numeric, 3.2, 10.0, 0, {}},
    {"results", FeatureKind::Numeric, 0.8, 163840.0, 0, {}},
    {"bytes", FeatureKind::Numeric, 2099.2, 311952550.0, 0, {}},
    {"heavy", FeatureKind::Boolean, 0.0, 0.0, 0, {}},
    {"sms", FeatureKind::Numeric, 132.0, 132.0, 0, {}},
    {"blocks_an_sm", FeatureKind::Numeric, 0.006060606060606061, 9.696969696969697, 0, {}},
    {"steps", FeatureKind::Numeric, 3.4, 1310720.0, 0, {}},
    {"steps_over_blocks", FeatureKind::Numeric, 0.007142857142857143, 1310720.0, 0, {}},
};

inline constexpr std::string_view choices[] = {
    "{\"least_steps\":16,\"parts_an_sm\":4}",
    "{\"least_steps\":16,\"parts_an_sm\":8}",
    "{\"least_steps\":256,\"parts_an_sm\":1}",
    "{\"least_steps\":256,\"parts_an_sm\":2}",
    "{\"least_steps\":256,\"parts_an_sm\":4}",
    "{\"least_steps\":256,\"parts_an_sm\":8}",
    "{\"least_steps\":64,\"parts_an_sm\":1}",
    "{\"least_steps\":64,\"parts_an_sm\":2}",
    "{\"least_steps\":64,\"parts_an_sm\":4}",
    "{\"least_steps\":64,\"parts_an_sm\":8}",
    "{}",
};

inline constexpr RankedChoice ranking[] = {
    {2, 1.00249},
    {3, 1.00249},
    {4, 1.00249},
    {5, 1.00249},
    {-1, 1.011019},
    {6, 1.011019},
    {10, 1.011019},
    {2, 1.042983},
    {7, 1.037078},
    {8, 1.042814},
    {9, 1.046443},
    {6, 1.048368},
    {-1, 1.01048},
    {10, 1.01048},
    {0, 1.152596},
    {1, 1.152596},
};

inline constexpr TreeNode nodes[] = {
    {12, 1, 4, 140.69140625, 0},
    {6, 2, 3, 6.0, 0},
    {-1, 0, 0, 0.0, 0},
    {-1, 1, 0, 0.0, 0},
    {12, 5, 6, 64085.5, 0},
    {-1, 2, 0, 0.0, 0},
    {-1, 3, 0, 0.0, 0},
};

inline constexpr TreeLeaf leaves[] = {
    {LeafVerdict::Choice, 119, 0.004523, 0.008172, -0.021185, -0.011406, 0.242254, 0, 4},
    {LeafVerdict::Rule, 7, 0.010959, 0.061885, 0.073851, 0.146936, 0.299077, 4, 4},
    {LeafVerdict::Choice, 187, 0.039339, 0.045417, -0.066753, -0.047933, 0.220306, 8, 4},
    {LeafVerdict::Rule, 26, 0.010426, 0.025842, 0.002618, 0.018936, 0.11372, 12, 4},
};

inline constexpr TreeNode terms[] = {
    {12, 1, 4, 140.69140625, 0}, {6, 2, 3, 6.0, 0}, {-1, 0, 0, 0.0, 0}, {-1, 1, 0, 0.0, 0}, {12, 5, 6, 64085.5, 0}, {-1, 2, 0, 0.0, 0}, {-1, 3, 0, 0.0, 0},
};

inline constexpr std::int32_t roots[] = {
    0,
};

inline constexpr float values[] = {
    2.0F, 2.0F, -0.021185F, -0.021184F, -0.021183F, -0.021182F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 0.031126143F, 2.0F, 2.0F, 2.0F, 0.0F, 2.0F, 2.0F, 2.0F, 1e-06F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.055925474F, -0.066753F, -0.061237317F, -0.05776335F, 2.0F, 0.13159132F, 0.13159232F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 0.0F,
};

}  // namespace cuda_h100_cuda_split_reduction_parts

inline constexpr TreeTable cuda_h100_cuda_split_reduction = {
    {"cuda_split_reduction", "2", "h100", "cuda -gpu=h100", "2026-11-27", 339, 5779, 0x1U},
    {0.9, 0.02, 0.5, 0.0},
    cuda_h100_cuda_split_reduction_parts::features,
    cuda_h100_cuda_split_reduction_parts::nodes,
    cuda_h100_cuda_split_reduction_parts::leaves,
    cuda_h100_cuda_split_reduction_parts::ranking,
    cuda_h100_cuda_split_reduction_parts::choices,
    cuda_h100_cuda_split_reduction_parts::terms,
    cuda_h100_cuda_split_reduction_parts::roots,
    cuda_h100_cuda_split_reduction_parts::values,
};

}  // namespace heddle::trees
