#include "runtime/exported/program.h"

#include "runtime/cuda/program_json.h"
#include "runtime/kernel/arg_json.h"
#include "support/hashing/hex.h"
#include "support/tree/json.h"

namespace heddle {
namespace {

/// Trees call a size by its number, because several may have one name.
std::vector<FeatureNames> numbers(size_t count) {
  std::vector<FeatureNames> names;
  for (size_t i = 0; i < count; ++i) names.push_back({std::to_string(i)});
  return names;
}

template <class T>
std::vector<T> ints(const Json& list) {
  std::vector<T> out;
  for (const Json& j : list.elements()) out.push_back(static_cast<T>(j.as_int()));
  return out;
}

template <class T, class Make>
Json list_of(const std::vector<T>& items, Make make) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(make(item));
  return list;
}

Json kernel_json(const ExportedKernel& k) {
  Json j = Json::object({{"name", k.name}, {"args", k.args}});
  if (!k.gpu) return j;
  j["gpu"] = cuda::to_json(*k.gpu);
  j["constants"] = Json::array_of(k.constants);
  j["prepared_bytes"] = Json::array_of(k.prepared_bytes);
  return j;
}

ExportedKernel kernel_from(const Json& j) {
  ExportedKernel k{.name = j.at("name").as_string(),
                   .args = static_cast<int>(j.at("args").as_int())};
  const Json* gpu = j.find("gpu");
  if (gpu == nullptr) return k;
  k.gpu = std::make_shared<const cuda::Program>(cuda::program_from_json(*gpu));
  k.constants = ints<int>(j.at("constants"));
  k.prepared_bytes = ints<int64_t>(j.at("prepared_bytes"));
  return k;
}

/// A variant is the number of its kernel, then pairs of numbers: lists in lists take long to read.
Json variant_json(const ExportedVariant& v) {
  Json j = Json::array({v.kernel});
  for (const ProgramPlace& p : v.places) {
    j.push_back(static_cast<int>(p.where));
    j.push_back(p.at);
  }
  return j;
}

ExportedVariant variant_from(const Json& j) {
  ExportedVariant v{static_cast<int>(j.at(0).as_int()), {}};
  for (size_t i = 1; i < j.size(); i += 2)
    v.places.push_back({static_cast<ProgramPlace::Where>(j.at(i).as_int()), j.at(i + 1).as_int()});
  return v;
}

/// A step without a choice has no tree.
Json step_json(const ExportedStep& step, size_t sizes) {
  Json j = Json::object({{"variants", list_of(step.variants, variant_json)}});
  if (step.variants.size() > 1) j["tree"] = tree_to_json(step.selector.tree(), numbers(sizes));
  return j;
}

ExportedStep step_from(const Json& j, size_t sizes) {
  ExportedStep step;
  for (const Json& v : j.at("variants").elements()) step.variants.push_back(variant_from(v));
  if (const Json* tree = j.find("tree"))
    step.selector = tree_from_json(*tree, numbers(sizes), step.variants.size());
  return step;
}

/// Adds a constant and a factor for each size.
void add_sum(Json& list, const SizeSum& sum, size_t sizes) {
  list.push_back(sum.constant);
  for (size_t i = 0; i < sizes; ++i) list.push_back(i < sum.factors.size() ? sum.factors[i] : 0);
}

/// Reads it from number `at` on, which becomes that behind it.
SizeSum sum_from(const Json& list, size_t& at, size_t sizes) {
  SizeSum sum{list.at(at++).as_int(), {}};
  for (size_t i = 0; i < sizes; ++i) sum.factors.push_back(list.at(at++).as_int());
  return sum;
}

/// A view is the numbers of its argument and of the bytes of a row, then sums of the sizes.
Json view_json(const ProgramView& v, size_t sizes) {
  Json j = Json::array({v.argument, v.row_bytes});
  for (const SizeSum* sum : {&v.first, &v.rows, &v.capacity}) add_sum(j, *sum, sizes);
  return j;
}

ProgramView view_from(const Json& j, size_t sizes) {
  ProgramView v{static_cast<size_t>(j.at(0).as_int()), j.at(1).as_int(), {}, {}, {}};
  size_t at = 2;
  for (SizeSum* sum : {&v.first, &v.rows, &v.capacity}) *sum = sum_from(j, at, sizes);
  return v;
}

/// A place of turns is pairs of numbers for its places, what `back` and `reverse` are, and the sum of a row.
Json turn_json(const TurnPlace& t, size_t sizes) {
  Json j = Json::array();
  for (const ProgramPlace* p : {&t.even, &t.odd, &t.first, &t.last}) {
    j.push_back(static_cast<int>(p->where));
    j.push_back(p->at);
  }
  j.push_back(t.back);
  j.push_back(t.reverse ? 1 : 0);
  add_sum(j, t.row_bytes, sizes);
  return j;
}

TurnPlace turn_from(const Json& j, size_t sizes) {
  TurnPlace t;
  size_t at = 0;
  for (ProgramPlace* p : {&t.even, &t.odd, &t.first, &t.last}) {
    p->where = static_cast<ProgramPlace::Where>(j.at(at++).as_int());
    p->at = j.at(at++).as_int();
  }
  t.back = static_cast<int>(j.at(at++).as_int());
  t.reverse = j.at(at++).as_int() != 0;
  t.row_bytes = sum_from(j, at, sizes);
  return t;
}

/// A loop is its first step, the step behind it, and the sum of its turns.
Json loop_json(const ProgramLoop& loop, size_t sizes) {
  Json j = Json::array({loop.begin, loop.end});
  add_sum(j, loop.turns, sizes);
  return j;
}

ProgramLoop loop_from(const Json& j, size_t sizes) {
  size_t at = 2;
  return {static_cast<size_t>(j.at(0).as_int()), static_cast<size_t>(j.at(1).as_int()),
          sum_from(j, at, sizes)};
}

}  // namespace

Json to_json(const ExportedProgram& p) {
  Json j = Json::object({{"name", p.name}, {"target", p.target}});
  j["features"] = Json::array_of(p.features);
  j["args"] = args_to_json(p.args);
  j["sizes"] = list_of(p.sizes, [](const ExportedSize& s) {
    return Json::object({{"name", s.name}, {"lo", s.lo}, {"hi", s.hi}, {"multiple", s.multiple}});
  });
  j["kernels"] = list_of(p.kernels, kernel_json);
  j["steps"] =
      list_of(p.steps, [&](const ExportedStep& s) { return step_json(s, p.sizes.size()); });
  Json arrays = Json::array();
  for (const ExportedArray& a : p.arrays) {
    arrays.push_back(a.at);
    arrays.push_back(a.bytes);
  }
  j["arrays"] = std::move(arrays);
  j["views"] = list_of(p.views, [&](const ProgramView& v) { return view_json(v, p.sizes.size()); });
  j["turns"] = list_of(p.turns, [&](const TurnPlace& t) { return turn_json(t, p.sizes.size()); });
  j["loops"] = list_of(p.loops, [&](const ProgramLoop& l) { return loop_json(l, p.sizes.size()); });
  j["updated"] = Json::array_of(p.updated);
  j["arena_bytes"] = p.arena_bytes;
  j["weights_bytes"] = p.weights_bytes;
  j["weights_hash"] = to_hex(p.weights_hash);
  j["check_weights"] = p.check_weights;
  return j;
}

ExportedProgram exported_program_from_json(const Json& j) {
  ExportedProgram p{.name = j.at("name").as_string(), .target = j.at("target").as_string()};
  for (const Json& f : j.at("features").elements()) p.features.push_back(f.as_string());
  p.args = args_from_json(j.at("args"));
  for (const Json& s : j.at("sizes").elements()) {
    p.sizes.push_back({s.at("name").as_string(), s.at("lo").as_int(), s.at("hi").as_int(),
                       s.at("multiple").as_int()});
  }
  for (const Json& k : j.at("kernels").elements()) p.kernels.push_back(kernel_from(k));
  for (const Json& s : j.at("steps").elements()) p.steps.push_back(step_from(s, p.sizes.size()));
  const std::vector<int64_t> arrays = ints<int64_t>(j.at("arrays"));
  for (size_t i = 0; i + 1 < arrays.size(); i += 2) p.arrays.push_back({arrays[i], arrays[i + 1]});
  for (const Json& v : j.at("views").elements()) p.views.push_back(view_from(v, p.sizes.size()));
  for (const Json& t : j.at("turns").elements()) p.turns.push_back(turn_from(t, p.sizes.size()));
  for (const Json& l : j.at("loops").elements()) p.loops.push_back(loop_from(l, p.sizes.size()));
  p.updated = ints<size_t>(j.at("updated"));
  p.arena_bytes = j.at("arena_bytes").as_int();
  p.weights_bytes = j.at("weights_bytes").as_int();
  parse_hex(j.at("weights_hash").as_string(), &p.weights_hash);
  p.check_weights = j.at("check_weights").as_bool();
  return p;
}

}  // namespace heddle
