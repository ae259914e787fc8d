// The table of a family as text: which kernel runs at which sizes.
#include <string>

#include "heddle/driver/choose_family.h"
#include "heddle/support/table.h"

namespace heddle {
namespace {

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t s : sizes) text += (text.empty() ? "" : " x ") + std::to_string(s);
  return text;
}

/// The tree as nested conditions, in elements.
void add_tree(const FamilyResult& r, size_t node, const std::string& indent, std::string* text) {
  const SizeTreeNode& n = r.kernel.tree()[node];
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
  if (r.kernel) add_tree(r, 0, "", &text);
  return text;
}

Json to_json(const FamilyResult& r) {
  Json dims = Json::array(), variants = Json::array(), rows = Json::array(), tree = Json::array();
  for (const Dim& d : r.dims) {
    dims.push_back(Json::object(
        {{"name", d.name()}, {"lo", d.lo()}, {"hi", d.hi()}, {"multiple", d.multiple()}}));
  }
  for (const FamilyVariant& v : r.variants) {
    variants.push_back(Json::object({{"name", v.name},
                                     {"chosen_at", Json::array_of(v.chosen_at)},
                                     {"provenance", v.schedule.provenance},
                                     {"schedule", v.schedule.to_json()}}));
  }
  for (const FamilyRow& row : r.rows) {
    rows.push_back(Json::object({{"sizes", Json::array_of(row.point.sizes)},
                                 {"weight", row.point.weight},
                                 {"kernel", r.variants[static_cast<size_t>(row.variant)].name},
                                 {"seconds", Json::array_of(row.seconds)},
                                 {"slowdown", row.slowdown}}));
  }
  for (const SizeTreeNode& n : r.kernel ? r.kernel.tree() : SizeTree()) {
    if (n.size < 0) {
      tree.push_back(Json::object({{"kernel", r.variants[static_cast<size_t>(n.variant)].name}}));
    } else {
      const Dim& d = r.dims[static_cast<size_t>(n.size)];
      tree.push_back(Json::object({{"dim", d.name()},
                                   {"at_most", n.at_most * d.multiple()},
                                   {"yes", n.yes},
                                   {"no", n.no}}));
    }
  }
  return Json::object({{"dims", std::move(dims)},
                       {"variants", std::move(variants)},
                       {"rows", std::move(rows)},
                       {"tree", std::move(tree)},
                       {"candidates", r.candidates},
                       {"expected_slowdown", r.expected_slowdown}});
}

}  // namespace heddle
