// The table of a family as text: which kernel runs at which sizes.
#include <string>

#include "heddle/family/choose.h"
#include "support/table.h"
#include "support/tree/outline.h"

namespace heddle {
namespace {

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t s : sizes) text += (text.empty() ? "" : " x ") + std::to_string(s);
  return text;
}

/// The tree on the dimensions, in elements.
std::string tree_text(const FamilyResult& r) {
  return outline(
      r.tree,
      [&](const TreeNode& node, bool yes) {
        const Dim& d = r.dims[static_cast<size_t>(node.feature)];
        return d.name() + (yes ? " <= " : " > ") +
               std::to_string(static_cast<int64_t>(node.at_most) * d.multiple());
      },
      [&](int variant) { return r.variants[static_cast<size_t>(variant)].name; });
}

}  // namespace

std::string to_text(const FamilyResult& r) {
  std::string names;
  for (const Dim& d : r.dims) names += (names.empty() ? "" : " x ") + d.name();
  Table table({names, "kernel", "time", "slowdown"});
  table.align_left(1);
  for (const FamilyRow& row : r.rows) {
    const auto v = static_cast<size_t>(row.variant);
    table.add_row({sizes_text(row.point.sizes), r.variants[v].name, format_time(row.seconds[v]),
                   format_fixed(row.slowdown, 2)});
  }
  std::string text = table.to_string();
  text += "expected slowdown " + format_fixed(r.expected_slowdown, 3) + "; " +
          std::to_string(r.variants.size()) + " of " + std::to_string(r.candidates) +
          " kernels are kept\n";
  return r.tree.empty() ? text : text + tree_text(r);
}

}  // namespace heddle
