// clang-format off
// Written by generate_table (heuristics/train/generate_table.h).
//
// heuristic cuda_reduce_rows, version 1
// machine   h100, h200, h200, h200
// target    cuda -gpu=h100, cuda -gpu=h200, cuda -gpu=h200, cuda -gpu=h200
// date      2026-11-23
// from      259 problems, 6791 measurements, seed 1
// training  {"depth":4,"leaf_size":4,"folds":5,"problems_left_out":0,"held_out_over_best":1.039368,"rule_over_best":1.114498}
#pragma once

#include <string_view>

#include "heddle/support/decision_tree.h"

namespace heddle::trees {
namespace cuda_h200_cuda_reduce_rows_parts {

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
    "{\"cluster\":2,\"rows_per_block\":1,\"threads\":1024,\"unroll\":4}",
    "{\"cluster\":4,\"rows_per_block\":1,\"threads\":4096,\"unroll\":4}",
    "{\"cluster\":8,\"rows_per_block\":1,\"threads\":2048,\"unroll\":4}",
    "{\"cluster\":8,\"rows_per_block\":1,\"threads\":4096,\"unroll\":4}",
    "{\"cluster\":8,\"rows_per_block\":1,\"threads\":8192,\"unroll\":4}",
    "{\"rows_per_block\":1,\"threads\":1024,\"unroll\":8}",
    "{\"rows_per_block\":1,\"threads\":128,\"unroll\":4}",
    "{\"rows_per_block\":1,\"threads\":128,\"unroll\":8}",
    "{\"rows_per_block\":1,\"threads\":256,\"unroll\":4}",
    "{\"rows_per_block\":1,\"threads\":256,\"unroll\":8}",
    "{\"rows_per_block\":1,\"threads\":512,\"unroll\":8}",
    "{\"rows_per_block\":16,\"threads\":32,\"unroll\":2}",
    "{\"rows_per_block\":16,\"threads\":32,\"unroll\":8}",
    "{\"rows_per_block\":2,\"threads\":32,\"unroll\":8}",
    "{\"rows_per_block\":4,\"threads\":32,\"unroll\":8}",
    "{\"rows_per_block\":8,\"threads\":32,\"unroll\":2}",
    "{\"rows_per_block\":8,\"threads\":32,\"unroll\":8}",
    "{}",
};

inline constexpr RankedChoice ranking[] = {
    {11, 1.005918},
    {12, 1.011694},
    {16, 1.009429},
    {15, 1.009922},
    {15, 1.004285},
    {16, 1.004837},
    {11, 1.00785},
    {12, 1.008244},
    {14, 1.011077},
    {16, 1.011554},
    {12, 1.026391},
    {13, 1.054818},
    {16, 1.008294},
    {14, 1.005123},
    {12, 1.033572},
    {-1, 1.117455},
    {12, 1.016744},
    {16, 1.061159},
    {11, 1.068105},
    {15, 1.08143},
    {16, 1.002009},
    {12, 1.006105},
    {14, 1.117685},
    {15, 1.164229},
    {7, 1.022308},
    {6, 1.056794},
    {-1, 1.062854},
    {17, 1.062854},
    {9, 1.005248},
    {8, 1.010386},
    {7, 1.01633},
    {-1, 1.080877},
    {7, 1.029451},
    {14, 1.031966},
    {16, 1.033113},
    {12, 1.037338},
    {13, 1.039005},
    {14, 1.039412},
    {16, 1.043139},
    {12, 1.057002},
    {9, 1.036491},
    {10, 1.057072},
    {-1, 1.066976},
    {17, 1.066976},
    {-1, 1.072758},
    {17, 1.072758},
    {10, 1.112098},
    {5, 1.119645},
    {4, 1.032396},
    {3, 1.173339},
    {1, 1.264174},
    {2, 1.703888},
    {-1, 1.026232},
    {5, 1.026232},
    {17, 1.026232},
    {0, 1.04946},
};

inline constexpr TreeNode nodes[] = {
    {7, 1, 12, 129.375, 0},
    {2, 2, 9, 16726.0, 0},
    {7, 3, 6, 17.375, 0},
    {2, 4, 5, 1535.5, 0},
    {-1, 0, 0, 0.0, 0},
    {-1, 1, 0, 0.0, 0},
    {0, 7, 8, 258.0, 0},
    {-1, 2, 0, 0.0, 0},
    {-1, 3, 0, 0.0, 0},
    {0, 10, 11, 154.5, 0},
    {-1, 4, 0, 0.0, 0},
    {-1, 5, 0, 0.0, 0},
    {7, 13, 20, 575.125, 0},
    {2, 14, 17, 3571.0, 0},
    {0, 15, 16, 1274.5, 0},
    {-1, 6, 0, 0.0, 0},
    {-1, 7, 0, 0.0, 0},
    {10, 18, 19, 54.5, 0},
    {-1, 8, 0, 0.0, 0},
    {-1, 9, 0, 0.0, 0},
    {0, 21, 24, 66620.0, 0},
    {0, 22, 23, 4160.0, 0},
    {-1, 10, 0, 0.0, 0},
    {-1, 11, 0, 0.0, 0},
    {2, 25, 26, 68.5, 0},
    {-1, 12, 0, 0.0, 0},
    {-1, 13, 0, 0.0, 0},
};

inline constexpr TreeLeaf leaves[] = {
    {LeafVerdict::Rule, 10, 0.027276, 0.066622, -0.008701, 0.027236, 0.000463, 0, 4},
    {LeafVerdict::Choice, 6, 0.010117, 0.037745, -0.119294, -0.031734, 0.004309, 4, 4},
    {LeafVerdict::Choice, 38, 0.013381, 0.019074, -0.079263, -0.054505, 0.03093, 8, 4},
    {LeafVerdict::Choice, 13, 0.015934, 0.030303, -0.09512, -0.001704, 0.017484, 12, 4},
    {LeafVerdict::Choice, 9, 0.069575, 0.105753, -0.350811, -0.248376, 0.014462, 16, 4},
    {LeafVerdict::Choice, 6, 0.002775, 0.03026, -0.275013, -0.136916, 0.000256, 20, 4},
    {LeafVerdict::Choice, 21, 0.022162, 0.0346, -0.038796, -0.008758, 0.004188, 24, 4},
    {LeafVerdict::Choice, 21, 0.009395, 0.019213, -0.068378, -0.022002, 0.053131, 28, 4},
    {LeafVerdict::Choice, 6, 0.029336, 0.060254, -0.057926, 0.015279, 0.054118, 32, 4},
    {LeafVerdict::Choice, 7, 0.098173, 0.150136, -0.178535, -0.085165, -0.001094, 36, 4},
    {LeafVerdict::Unsure, 39, 0.064828, 0.096098, -0.020326, 0.007291, 0.254249, 40, 4},
    {LeafVerdict::Rule, 70, 0.070233, 0.092006, -0.015604, 0.004127, 0.399033, 44, 4},
    {LeafVerdict::Choice, 5, 0.031882, 0.072884, -0.685602, -0.568462, -0.448969, 48, 4},
    {LeafVerdict::Rule, 8, 0.025894, 0.07697, 0.0, 0.043368, 0.0, 52, 4},
};

inline constexpr TreeNode terms[] = {
    {7, 1, 12, 129.375, 0}, {2, 2, 9, 16726.0, 0}, {7, 3, 6, 17.375, 0}, {2, 4, 5, 1535.5, 0}, {-1, 0, 0, 0.0, 0}, {-1, 1, 0, 0.0, 0}, {0, 7, 8, 258.0, 0}, {-1, 2, 0, 0.0, 0}, {-1, 3, 0, 0.0, 0}, {0, 10, 11, 154.5, 0}, {-1, 4, 0, 0.0, 0}, {-1, 5, 0, 0.0, 0}, {7, 13, 20, 575.125, 0}, {2, 14, 17, 3571.0, 0}, {0, 15, 16, 1274.5, 0}, {-1, 6, 0, 0.0, 0}, {-1, 7, 0, 0.0, 0}, {10, 18, 19, 54.5, 0}, {-1, 8, 0, 0.0, 0}, {-1, 9, 0, 0.0, 0}, {0, 21, 24, 66620.0, 0}, {0, 22, 23, 4160.0, 0}, {-1, 10, 0, 0.0, 0}, {-1, 11, 0, 0.0, 0}, {2, 25, 26, 68.5, 0}, {-1, 12, 0, 0.0, 0}, {-1, 13, 0, 0.0, 0},
};

inline constexpr std::int32_t roots[] = {
    0,
};

inline constexpr float values[] = {
    2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.008701F, -0.0029754038F, 2.0F, 2.0F, -0.0029734038F, -0.0029744038F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.1157505F, -0.11535964F, 2.0F, 2.0F, -0.119294F, -0.11874451F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.06423033F, -0.036910858F, -0.079263F, 2.0F, -0.078791335F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.078033015F, 2.0F, -0.102792986F, 2.0F, -0.102793984F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.3015303F, -0.350811F, 2.0F, 2.0F, -0.28913212F, -0.30805466F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.27093354F, 2.0F, -0.1657604F, -0.12496092F, -0.275013F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.005717946F, -0.038894925F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 0.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.06157465F, -0.067440316F, -0.07253847F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.057926F, 2.0F, 2.0F, 2.0F, 2.0F, -0.050293833F, 2.0F, -0.05548593F, 2.0F, -0.054375075F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.16136193F, -0.178535F, -0.17814335F, 2.0F, -0.1745641F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, -0.02898751F, -0.009325657F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 0.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 0.042778768F, 2.0F, 2.0F, 2.0F, 2.0F, 0.036015417F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 0.0F, 2.0F, -0.48306537F, -0.18457161F, -0.5576308F, -0.685602F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 0.022381904F, 2.0F, 2.0F, 2.0F, 2.0F, 0.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 1e-06F,
};

}  // namespace cuda_h200_cuda_reduce_rows_parts

inline constexpr TreeTable cuda_h200_cuda_reduce_rows = {
    {"cuda_reduce_rows", "1", "h100, h200, h200, h200", "cuda -gpu=h100, cuda -gpu=h200, cuda -gpu=h200, cuda -gpu=h200", "2026-11-23", 259, 6791, 0x1U},
    {0.9, 0.02, 0.15, 0.0},
    cuda_h200_cuda_reduce_rows_parts::features,
    cuda_h200_cuda_reduce_rows_parts::nodes,
    cuda_h200_cuda_reduce_rows_parts::leaves,
    cuda_h200_cuda_reduce_rows_parts::ranking,
    cuda_h200_cuda_reduce_rows_parts::choices,
    cuda_h200_cuda_reduce_rows_parts::terms,
    cuda_h200_cuda_reduce_rows_parts::roots,
    cuda_h200_cuda_reduce_rows_parts::values,
};

}  // namespace heddle::trees
