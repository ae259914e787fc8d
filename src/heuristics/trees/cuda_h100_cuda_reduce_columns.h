// clang-format off
// Written by generate_table (heuristics/train/generate_table.h).
//
// heuristic cuda_reduce_columns, version 1
// machine   h100
// target    cuda -gpu=h100
// date      2026-11-22
// from      145 problems, 7105 measurements, seed 1
// training  {"depth":2,"leaf_size":4,"folds":5,"problems_left_out":0,"held_out_over_best":1.041366,"rule_over_best":1.398306,"machines_left_out":[{"machine":"h200","problems":31,"rule_over_best":1.0709,"tree_over_best":1.0302,"tree_over_rule":0.962,"unsure":0.129}]}
#pragma once

#include <string_view>

#include "heddle/support/decision_tree.h"

namespace heddle::trees {
namespace cuda_h100_cuda_reduce_columns_parts {

inline constexpr TreeFeature features[] = {
    {"columns", FeatureKind::Numeric, 0.8, 327680.0, 0, {}},
    {"length", FeatureKind::Numeric, 3.2, 58623.75, 0, {}},
    {"lanes", FeatureKind::Numeric, 0.8, 10.0, 0, {}},
    {"value_bytes", FeatureKind::Numeric, 1.6, 5.0, 0, {}},
    {"most_down", FeatureKind::Numeric, 6.4, 40.0, 0, {}},
    {"elements", FeatureKind::Numeric, 204.8, 59597640.0, 0, {}},
    {"vectors", FeatureKind::Numeric, 0.2, 81920.0, 0, {}},
    {"length_over_columns", FeatureKind::Numeric, 2.44140625e-05, 58623.75, 0, {}},
};

inline constexpr std::string_view choices[] = {
    "{\"threads_across\":16,\"threads_down\":32,\"unroll\":4}",
    "{\"threads_across\":16,\"threads_down\":32,\"unroll\":8}",
    "{\"threads_across\":32,\"threads_down\":32,\"unroll\":8}",
    "{\"threads_across\":32,\"threads_down\":4,\"unroll\":4}",
    "{\"threads_across\":32,\"threads_down\":8,\"unroll\":8}",
    "{\"threads_across\":4,\"threads_down\":32,\"unroll\":4}",
    "{\"threads_across\":4,\"threads_down\":32,\"unroll\":8}",
    "{\"threads_across\":64,\"threads_down\":4,\"unroll\":4}",
    "{\"threads_across\":64,\"threads_down\":4,\"unroll\":8}",
    "{\"threads_across\":64,\"threads_down\":8,\"unroll\":4}",
    "{\"threads_across\":8,\"threads_down\":32,\"unroll\":4}",
    "{\"threads_across\":8,\"threads_down\":32,\"unroll\":8}",
    "{}",
};

inline constexpr RankedChoice ranking[] = {
    {4, 1.038704},
    {-1, 1.077115},
    {12, 1.077115},
    {9, 1.08047},
    {8, 1.034038},
    {7, 1.050805},
    {3, 1.058799},
    {-1, 1.065055},
    {6, 1.01066},
    {11, 1.070374},
    {5, 1.079711},
    {10, 1.138358},
    {1, 1.022022},
    {11, 1.059332},
    {2, 1.058945},
    {0, 1.143017},
};

inline constexpr TreeNode nodes[] = {
    {1, 1, 4, 122.5, 0},
    {0, 2, 3, 40969.5, 0},
    {-1, 0, 0, 0.0, 0},
    {-1, 1, 0, 0.0, 0},
    {3, 5, 6, 3.0, 0},
    {-1, 2, 0, 0.0, 0},
    {-1, 3, 0, 0.0, 0},
};

inline constexpr TreeLeaf leaves[] = {
    {LeafVerdict::Choice, 53, 0.033719, 0.04325, -0.040568, -0.013582, 0.12028, 0, 4},
    {LeafVerdict::Unsure, 9, 0.063027, 0.181697, 0.099389, 0.232848, 0.465135, 4, 4},
    {LeafVerdict::Choice, 5, 0.067318, 0.139319, -0.494965, -0.191167, -0.002839, 8, 4},
    {LeafVerdict::Choice, 78, 0.030173, 0.042234, -0.499277, -0.414635, 0.099914, 12, 4},
};

inline constexpr TreeNode terms[] = {
    {1, 1, 4, 122.5, 0}, {0, 2, 3, 40969.5, 0}, {-1, 0, 0, 0.0, 0}, {-1, 1, 0, 0.0, 0}, {3, 5, 6, 3.0, 0}, {-1, 2, 0, 0.0, 0}, {-1, 3, 0, 0.0, 0},
};

inline constexpr std::int32_t roots[] = {
    0,
};

inline constexpr float values[] = {
    2.0F, 2.0F, 2.0F, 2.0F, -0.03631239F, 2.0F, 2.0F, 2.0F, 2.0F, 0.003109961F, 2.0F, 2.0F, 0.0F, 2.0F, 2.0F, 2.0F, -0.005891194F, 2.0F, 2.0F, 2.0F, -0.013469904F, -0.029554915F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.42887518F, -0.494965F, 2.0F, 2.0F, 2.0F, -0.37598172F, -0.43756047F, 2.0F, -0.38738877F, -0.499277F, -0.4634205F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.4634215F, 2.0F,
};

}  // namespace cuda_h100_cuda_reduce_columns_parts

inline constexpr TreeTable cuda_h100_cuda_reduce_columns = {
    {"cuda_reduce_columns", "1", "h100", "cuda -gpu=h100", "2026-11-22", 145, 7105, 0x1U},
    {0.9, 0.02, 0.5, 0.0},
    cuda_h100_cuda_reduce_columns_parts::features,
    cuda_h100_cuda_reduce_columns_parts::nodes,
    cuda_h100_cuda_reduce_columns_parts::leaves,
    cuda_h100_cuda_reduce_columns_parts::ranking,
    cuda_h100_cuda_reduce_columns_parts::choices,
    cuda_h100_cuda_reduce_columns_parts::terms,
    cuda_h100_cuda_reduce_columns_parts::roots,
    cuda_h100_cuda_reduce_columns_parts::values,
};

}  // namespace heddle::trees
