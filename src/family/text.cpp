// The table of a family as text: which kernel runs at which sizes.
#include <string>

#include "heddle/family/choose.h"
#include "support/table.h"

namespace heddle {
namespace {

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t s : sizes) text += (text.empty() ? "" : " x ") + std::to_string(s);
  return text;
}

/// The tree as nested conditions, in elements.
void add_tree(const FamilyResult& r, size_t node, const std::string& indent, std::string* text) {
  const SizeTreeNode& n = r.tree[node];
  if (n.size < 0) {
    *text += indent + r.variants[static_cast<size_t>(n.variant)].name + "\n";
    return;
  }
  const Dim& d = r.dims[static_cast<size_t>(n.size)];
  *text += indent + "if " + d.name() + " <= " + std::to_string(n.at_most * d.multiple()) + ":\n";
  add_tree(r, static_cast<size_t>(n.yes), indent + "  ", text);
  *text += indent + "else:\n";
  add_tree(r, static_cast<size_t>(n.no), indent + "  ", text);
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
  if (!r.tree.empty()) add_tree(r, 0, "", &text);
  return text;
}

}  // namespace heddle
