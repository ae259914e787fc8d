#include "family/json.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "heddle/support/error.h"
#include "support/tree/json.h"

namespace heddle {
namespace {

/// A dimension of the JSON: its place among the sizes, and its multiple.
struct KnownSize {
  int position = 0;
  int64_t multiple = 1;
};

KnownSize known_size(const Json& dim, std::span<const Var> sizes) {
  const int64_t multiple = dim.at("multiple").as_int();
  const std::string name = dim.at("name").as_string(),
                    variable = multiple == 1 ? name : name + "/" + std::to_string(multiple);
  const auto at = std::find_if(sizes.begin(), sizes.end(), [&](const Var& v) {
    return v->name == variable && v->size->lo * multiple == dim.at("lo").as_int() &&
           v->size->hi * multiple == dim.at("hi").as_int();
  });
  if (at == sizes.end() || multiple < 1)
    throw_user_error("the declaration has no dimension '" + name + "' of " + dim.at("lo").dump() +
                     " to " + dim.at("hi").dump());
  return {static_cast<int>(at - sizes.begin()), multiple};
}

int variant_of(const Json& family, const Json& name) {
  const std::vector<Json>& variants = family.at("variants").elements();
  const auto at = std::find_if(variants.begin(), variants.end(),
                               [&](const Json& v) { return v.at("name") == name; });
  if (at == variants.end()) throw_user_error("there is no kernel " + name.dump());
  return static_cast<int>(at - variants.begin());
}

/// The tree asks for elements, whereas kernels count in multiples of a dimension.
Json tree_json(const FamilyResult& r) {
  SizeTree in_elements = r.tree;
  for (TreeNode& n : in_elements) {
    if (n.feature >= 0)
      n.at_most *= static_cast<double>(r.dims[static_cast<size_t>(n.feature)].multiple());
  }
  std::vector<FeatureNames> names;
  for (const Dim& d : r.dims) names.push_back({d.name()});
  return tree_to_json(in_elements, names);
}

/// The nodes in the form that is written now. Records of earlier versions name the dimension of a
/// question by "dim", and the kernel of a leaf.
Json current_nodes(const Json& family) {
  Json nodes = Json::array();
  for (Json n : family.at("tree").elements()) {
    if (const Json* kernel = n.find("kernel")) {
      n = Json::object({{"leaf", variant_of(family, *kernel)}});
    } else if (const Json* dim = n.find("dim")) {
      n["feature"] = Json(*dim);
    }
    nodes.push_back(std::move(n));
  }
  return nodes;
}

std::vector<int64_t> integers(const Json& list) {
  std::vector<int64_t> out;
  for (const Json& e : list.elements()) out.push_back(e.as_int());
  return out;
}

}  // namespace

Json to_json(const FamilyResult& r) {
  Json dims = Json::array(), variants = Json::array(), rows = Json::array();
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
  return Json::object({{"dims", std::move(dims)},
                       {"variants", std::move(variants)},
                       {"rows", std::move(rows)},
                       {"tree", tree_json(r)},
                       {"candidates", r.candidates},
                       {"expected_slowdown", r.expected_slowdown}});
}

SizeTree family::size_tree_from_json(const Json& family, std::span<const Var> sizes) {
  const std::vector<Json>& dims = family.at("dims").elements();
  std::vector<FeatureNames> names;
  for (const Json& d : dims) names.push_back({d.at("name").as_string()});
  SizeTree tree = tree_from_json(current_nodes(family), names, family.at("variants").size());
  for (TreeNode& n : tree) {
    if (n.feature < 0) continue;
    const KnownSize size = known_size(dims[static_cast<size_t>(n.feature)], sizes);
    n.feature = size.position;
    n.at_most = std::floor(n.at_most / static_cast<double>(size.multiple));
  }
  return tree;
}

std::vector<Schedule> family::schedules_from_json(const Json& family, const ComputeDag& dag) {
  std::vector<Schedule> schedules;
  for (const Json& v : family.at("variants").elements()) {
    schedules.push_back(Schedule::from_json(v.at("schedule"), dag));
    schedules.back().provenance = v.at("provenance").as_string();
  }
  if (schedules.empty()) throw_user_error("there is no kernel");
  return schedules;
}

FamilyResult family::result_from_json(const Json& family, const ComputeDag& dag,
                                      const std::vector<Dim>& dims) {
  FamilyResult r;
  r.dims = dims;
  std::vector<Var> sizes;
  for (const Dim& d : dims) sizes.push_back(d.variable());
  r.tree = size_tree_from_json(family, sizes);
  const std::vector<Schedule> schedules = schedules_from_json(family, dag);
  for (size_t i = 0; i < schedules.size(); ++i) {
    const Json& v = family.at("variants").at(i);
    r.variants.push_back({v.at("name").as_string(), integers(v.at("chosen_at")), schedules[i]});
  }
  for (const Json& j : family.at("rows").elements()) {
    FamilyRow row{{integers(j.at("sizes")), j.at("weight").as_double()},
                  variant_of(family, j.at("kernel")),
                  {},
                  j.at("slowdown").as_double()};
    for (const Json& s : j.at("seconds").elements()) row.seconds.push_back(s.as_double());
    if (row.point.sizes.size() != dims.size() || row.seconds.size() != r.variants.size())
      throw_user_error("a row does not have a number for each dimension and each kernel");
    r.rows.push_back(std::move(row));
  }
  r.candidates = static_cast<int>(family.at("candidates").as_int());
  r.expected_slowdown = family.at("expected_slowdown").as_double();
  return r;
}

}  // namespace heddle
