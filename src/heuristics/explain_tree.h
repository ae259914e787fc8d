// The answer of a sum of trees in words.
//
//   tree 'matmul' of version 1: 320 problems, 4100 measurements on EPYC 7713, 2026-11-22
//     rows 49 <= 64.5
//     layout nhwc is one of {nhwc, blocked}
//   region 3 of 9 (41 problems)
//     answer: {"tile_rows":6}, by 24 trees 0.931 of the rule's time
//     decided by: rows 49 (62 %), depth 512 (21 %), layout nhwc (17 %)
//     next: 0.957  {"tile_rows":4}
//           1.000  the rule
//     in this region: 1.021 of the best, at most 1.043 (90 % confidence)
//     against the rule: 0.940, at most 0.958; worst of the held-out problems 1.072
//     best on average: 1.012  {"tile_rows":6}
//                      1.054  {"tile_rows":4}
#pragma once

#include <span>
#include <string>

#include "heddle/support/decision_tree.h"

namespace heddle::learning {

/// The path to the region, the predictions, and what is known about the region or why there is no
/// answer. Several lines, each with its newline. A feature decides as much as the trees that ask for
/// it say about the choice; a tree that asks for several divides what it says among them.
std::string explain_answer(const TreeTable& tree, std::span<const double> features);

/// One line without a newline: "region 3 of 9 (41 problems): {"tile_rows":6}, 0.931 of the rule's
/// time", or "unsure: rows is 100000, outside of ...". `answer` is that of the table for these
/// features.
std::string describe_answer(const TreeTable& tree, const TreeAnswer& answer,
                            std::span<const double> features);

/// The tree of regions, indented.
std::string tree_outline(const TreeTable& tree);

}  // namespace heddle::learning
