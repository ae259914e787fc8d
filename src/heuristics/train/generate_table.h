// A tree as a C++ source file with a constant table, which needs no file at run time.
#pragma once

#include <string>
#include <string_view>

#include "heddle/heuristics/trained_tree.h"

namespace heddle::learning {

/// The text of a header that defines `inline constexpr TreeTable SYMBOL`. Its comments say where
/// the tree comes from. Throws a User error where `symbol` is not a C++ identifier.
std::string generate_table(const TrainedTree& tree, std::string_view symbol);

}  // namespace heddle::learning
