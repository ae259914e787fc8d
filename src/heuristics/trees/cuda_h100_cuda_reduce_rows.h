// clang-format off
// Written by generate_table (heuristics/train/generate_table.h).
//
// heuristic cuda_reduce_rows, version 1
// machine   h100
// target    cuda -gpu=h100
// date      2026-11-23
// from      183 problems, 4823 measurements, seed 1
// training  {"depth":2,"leaf_size":4,"folds":5,"problems_left_out":0,"held_out_over_best":1.052338,"rule_over_best":1.080495}
#pragma once

#include <string_view>

#include "heddle/support/decision_tree.h"

namespace heddle::trees {
namespace cuda_h100_cuda_reduce_rows_parts {

inline constexpr TreeFeature features[] = {
    {"extent", FeatureKind::Numeric, 25.6, 520520.0, 0, {}},
    {"lanes", FeatureKind::Numeric, 0.8, 10.0, 0, {}},
    {"rows", FeatureKind::Numeric, 0.8, 327680.0, 0, {}},
    {"by_clusters", FeatureKind::Boolean, 0.0, 1.0, 0, {}},
    {"heavy", FeatureKind::Boolean, 0.0, 0.0, 0, {}},
    {"sms", FeatureKind::Numeric, 132.0, 132.0, 0, {}},
    {"has_clusters", FeatureKind::Boolean, 1.0, 1.0, 0, {}},
    {"vectors", FeatureKind::Numeric, 6.4, 130130.0, 0, {}},
    {"rows_an_sm", FeatureKind::Numeric, 0.006060606060606061, 2482.4242424242425, 0, {}},
    {"elements", FeatureKind::Numeric, 25.6, 75731200.0, 0, {}},
    {"past_a_warp", FeatureKind::Numeric, 0.0, 318.75, 0, {}},
};

inline constexpr std::string_view choices[] = {
    "{\"rows_per_block\":1,\"threads\":128,\"unroll\":4}",
    "{\"rows_per_block\":1,\"threads\":128,\"unroll\":8}",
    "{\"rows_per_block\":1,\"threads\":32,\"unroll\":8}",
    "{\"rows_per_block\":1,\"threads\":512,\"unroll\":4}",
    "{\"rows_per_block\":1,\"threads\":512,\"unroll\":8}",
    "{\"rows_per_block\":16,\"threads\":32,\"unroll\":8}",
    "{\"rows_per_block\":4,\"threads\":32,\"unroll\":8}",
    "{\"rows_per_block\":8,\"threads\":32,\"unroll\":8}",
    "{}",
};

inline constexpr RankedChoice ranking[] = {
    {6, 1.007164},
    {7, 1.009986},
    {2, 1.013197},
    {5, 1.01681},
    {7, 1.005079},
    {5, 1.019208},
    {6, 1.04699},
    {-1, 1.091531},
    {1, 1.032924},
    {0, 1.080101},
    {-1, 1.092401},
    {8, 1.092401},
    {-1, 1.067751},
    {8, 1.067751},
    {4, 1.108068},
    {3, 1.151224},
};

inline constexpr TreeNode nodes[] = {
    {7, 1, 4, 129.375, 0},
    {2, 2, 3, 19.0, 0},
    {-1, 0, 0, 0.0, 0},
    {-1, 1, 0, 0.0, 0},
    {7, 5, 6, 575.125, 0},
    {-1, 2, 0, 0.0, 0},
    {-1, 3, 0, 0.0, 0},
};

inline constexpr TreeLeaf leaves[] = {
    {LeafVerdict::Choice, 14, 0.007993, 0.028765, -0.084448, -0.050535, -0.000272, 0, 4},
    {LeafVerdict::Choice, 39, 0.006726, 0.014611, -0.080855, -0.051934, 0.004572, 4, 4},
    {LeafVerdict::Unsure, 41, 0.088378, 0.118151, -0.030317, 0.003722, 0.460047, 8, 4},
    {LeafVerdict::Rule, 89, 0.065555, 0.08621, 0.001461, 0.005044, 0.130033, 12, 4},
};

inline constexpr TreeNode terms[] = {
    {7, 1, 4, 129.375, 0}, {2, 2, 3, 19.0, 0}, {-1, 0, 0, 0.0, 0}, {-1, 1, 0, 0.0, 0}, {7, 5, 6, 575.125, 0}, {-1, 2, 0, 0.0, 0}, {-1, 3, 0, 0.0, 0},
};

inline constexpr std::int32_t roots[] = {
    0,
};

inline constexpr float values[] = {
    2.0F, 2.0F, -0.07847578F, 2.0F, 2.0F, -0.074916184F, -0.084448F, -0.08164999F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.068555444F, -0.04166192F, -0.08251515F, 2.0F, -0.011323471F, -0.05598441F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 0.0F, 2.0F, 2.0F, 2.0F, 0.07527116F, 0.03706339F, 2.0F, 2.0F, 2.0F, 0.0F,
};

}  // namespace cuda_h100_cuda_reduce_rows_parts

inline constexpr TreeTable cuda_h100_cuda_reduce_rows = {
    {"cuda_reduce_rows", "1", "h100", "cuda -gpu=h100", "2026-11-23", 183, 4823, 0x1U},
    {0.9, 0.02, 0.5, 0.0},
    cuda_h100_cuda_reduce_rows_parts::features,
    cuda_h100_cuda_reduce_rows_parts::nodes,
    cuda_h100_cuda_reduce_rows_parts::leaves,
    cuda_h100_cuda_reduce_rows_parts::ranking,
    cuda_h100_cuda_reduce_rows_parts::choices,
    cuda_h100_cuda_reduce_rows_parts::terms,
    cuda_h100_cuda_reduce_rows_parts::roots,
    cuda_h100_cuda_reduce_rows_parts::values,
};

}  // namespace heddle::trees
