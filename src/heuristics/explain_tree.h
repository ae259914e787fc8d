// A tree's answer in words.
//
//   tree 'matmul' of version 1: 320 problems, 4100 measurements on EPYC 7713, 2026-11-22
//     rows 49 <= 64.5
//     layout nhwc is one of {nhwc, blocked}
//   leaf 3 of 9 (41 problems)
//     answer: {"tile_rows":6}
//     expected time: 1.021 of the best, at most 1.043 (90 % confidence)
//     against the rule: 0.931, at most 0.958; worst of the held-out problems 1.072
//     ranking: 1.012  {"tile_rows":6}
//              1.054  {"tile_rows":4}
#pragma once

#include <span>
#include <string>

#include "heddle/support/decision_tree.h"

namespace heddle::learning {

/// The path to the leaf, and what is known about the leaf or why the tree is unsure. Several lines,
/// each with its newline.
std::string explain_answer(const TreeTable& tree, std::span<const double> features);

/// One line without a newline: "leaf 3 of 9 (41 problems): {"tile_rows":6}, 1.021 of the best", or
/// "unsure: rows is 100000, outside of ...". `answer` is that of the table for these features.
std::string describe_answer(const TreeTable& tree, const TreeAnswer& answer,
                            std::span<const double> features);

/// The whole tree, indented.
std::string tree_outline(const TreeTable& tree);

}  // namespace heddle::learning
