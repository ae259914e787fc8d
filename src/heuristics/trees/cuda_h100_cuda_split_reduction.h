// clang-format off
// Written by generate_table (heuristics/train/generate_table.h).
//
// heuristic cuda_split_reduction, version 2
// machine   h100
// target    cuda -gpu=h100
// date      2026-11-22
// from      216 problems, 3654 measurements, seed 1
// training  {"depth":1,"leaf_size":4,"folds":5,"problems_left_out":0,"held_out_over_best":1.027367,"rule_over_best":1.038823}
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
    {"columns", FeatureKind::Numeric, 0.8, 327680.0, 0, {}},
    {"lanes", FeatureKind::Numeric, 3.2, 10.0, 0, {}},
    {"results", FeatureKind::Numeric, 0.8, 327680.0, 0, {}},
    {"bytes", FeatureKind::Numeric, 2304.0, 304941200.0, 0, {}},
    {"heavy", FeatureKind::Boolean, 0.0, 0.0, 0, {}},
    {"sms", FeatureKind::Numeric, 132.0, 132.0, 0, {}},
    {"blocks_an_sm", FeatureKind::Numeric, 0.006060606060606061, 9.848484848484848, 0, {}},
    {"steps", FeatureKind::Numeric, 3.475, 1310720.0, 0, {}},
    {"steps_over_blocks", FeatureKind::Numeric, 0.0076171875, 1310720.0, 0, {}},
};

inline constexpr std::string_view choices[] = {
    "{\"least_steps\":64,\"parts_an_sm\":1}",
    "{\"least_steps\":64,\"parts_an_sm\":2}",
    "{\"least_steps\":64,\"parts_an_sm\":4}",
    "{\"least_steps\":64,\"parts_an_sm\":8}",
    "{}",
};

inline constexpr RankedChoice ranking[] = {
    {-1, 1.024492},
    {4, 1.024492},
    {1, 1.109429},
    {2, 1.110846},
    {0, 1.025157},
    {1, 1.032671},
    {2, 1.042134},
    {3, 1.045558},
};

inline constexpr TreeNode nodes[] = {
    {2, 1, 2, 37645.5, 0},
    {-1, 0, 0, 0.0, 0},
    {-1, 1, 0, 0.0, 0},
};

inline constexpr TreeLeaf leaves[] = {
    {LeafVerdict::Rule, 165, 0.024196, 0.030318, 0.00113, 0.002897, 0.135091, 0, 4},
    {LeafVerdict::Choice, 51, 0.032413, 0.043107, -0.050619, -0.018363, 0.136016, 4, 4},
};

}  // namespace cuda_h100_cuda_split_reduction_parts

inline constexpr TreeTable cuda_h100_cuda_split_reduction = {
    {"cuda_split_reduction", "2", "h100", "cuda -gpu=h100", "2026-11-22", 216, 3654, 0x1U},
    {0.9, 0.02, 0.5},
    cuda_h100_cuda_split_reduction_parts::features,
    cuda_h100_cuda_split_reduction_parts::nodes,
    cuda_h100_cuda_split_reduction_parts::leaves,
    cuda_h100_cuda_split_reduction_parts::ranking,
    cuda_h100_cuda_split_reduction_parts::choices,
};

}  // namespace heddle::trees
