// Tree files: tophub/<kind>-<chip>.<heuristic>.tree, a tree as JSON (docs/heuristics.md).
#pragma once

#include <string>
#include <string_view>

#include "heddle/heuristics/trained_tree.h"

namespace heddle {

/// One node, leaf and feature a line. Numbers read back to the same bits.
std::string tree_to_text(const TrainedTree& tree);
/// Checks all that answering relies on. `source` names the text in errors.
TrainedTree parse_tree(std::string_view text, std::string_view source);

TrainedTree read_tree(const std::string& path);
/// The old file stays until the new one is complete.
void write_tree(const std::string& path, const TrainedTree& tree);

/// "llvm-znver3.matmul.tree"
std::string tree_file_name(std::string_view kind, std::string_view chip,
                           std::string_view heuristic);

}  // namespace heddle
