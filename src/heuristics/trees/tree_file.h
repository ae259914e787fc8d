// Tree files: tophub/<kind>-<chip>.<heuristic>.tree, a sum of trees as JSON
// (docs/guide/heuristics.md). Files of format 1 hold one tree, whose leaves rank choices; it is read
// as a sum of one tree with the same answers.
#pragma once

#include <string>
#include <string_view>

#include "heddle/heuristics/trained_tree.h"

namespace heddle::learning {

/// The tree as text, with one region, tree of the sum or feature on each line. Numbers read back to
/// the same bits.
std::string tree_to_text(const TrainedTree& tree);
/// Reads a tree and checks everything that answering relies on. `source` names the text in errors.
/// Throws a User error.
TrainedTree parse_tree(std::string_view text, std::string_view source);

/// Reads the file `path`. Throws a User error for an invalid tree, and a Runtime error where the
/// file cannot be read.
TrainedTree read_tree(const std::string& path);
/// Writes a tree. The old file stays until the new one is complete.
void write_tree(const std::string& path, const TrainedTree& tree);

/// The name of a tree's file: "llvm-znver3.matmul.tree".
std::string tree_file_name(std::string_view kind, std::string_view chip,
                           std::string_view heuristic);

}  // namespace heddle::learning
