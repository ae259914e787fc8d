#include "family/json.h"

#include <algorithm>
#include <optional>

#include "heddle/support/error.h"

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

Json tree_json(const FamilyResult& r) {
  Json tree = Json::array();
  for (const SizeTreeNode& n : r.tree) {
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
  return tree;
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

SizeTree family::tree_from_json(const Json& family, std::span<const Var> sizes) {
  const std::vector<Json>& nodes = family.at("tree").elements();
  const auto count = static_cast<int64_t>(nodes.size());
  if (count == 0) throw_user_error("the tree of the kernels is empty");
  SizeTree tree;
  for (const Json& n : nodes) {
    if (const Json* kernel = n.find("kernel")) {
      tree.push_back({.variant = variant_of(family, *kernel)});
      continue;
    }
    const std::vector<Json>& dims = family.at("dims").elements();
    const auto dim = std::find_if(dims.begin(), dims.end(),
                                  [&](const Json& d) { return d.at("name") == n.at("dim"); });
    if (dim == dims.end()) throw_user_error("there is no dimension " + n.at("dim").dump());
    const KnownSize size = known_size(*dim, sizes);
    const int64_t yes = n.at("yes").as_int(), no = n.at("no").as_int(),
                  here = static_cast<int64_t>(tree.size());
    if (std::min(yes, no) <= here || std::max(yes, no) >= count)
      throw_user_error("the tree of the kernels does not lead to its leaves");
    tree.push_back({size.position, n.at("at_most").as_int() / size.multiple, static_cast<int>(yes),
                    static_cast<int>(no), 0});
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
  r.tree = tree_from_json(family, sizes);
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
