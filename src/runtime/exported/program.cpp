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
  if (k.gpu) j["gpu"] = cuda::to_json(*k.gpu);
  j["prepared_bytes"] = Json::array_of(k.prepared_bytes);
  return j;
}

ExportedKernel kernel_from(const Json& j) {
  ExportedKernel k{.name = j.at("name").as_string(),
                   .args = static_cast<int>(j.at("args").as_int()),
                   .prepared_bytes = ints<int64_t>(j.at("prepared_bytes"))};
  if (const Json* gpu = j.find("gpu"))
    k.gpu = std::make_shared<const cuda::Program>(cuda::program_from_json(*gpu));
  return k;
}

Json step_json(const ExportedStep& step, size_t sizes) {
  Json j = Json::object();
  j["variants"] = list_of(step.variants, [](const ExportedVariant& v) {
    Json of_variant = Json::object({{"kernel", v.kernel}});
    of_variant["places"] = list_of(v.places, [](const ExportedPlace& p) {
      return Json::array({static_cast<int>(p.where), p.at});
    });
    return of_variant;
  });
  j["tree"] = tree_to_json(step.tree, numbers(sizes));
  return j;
}

ExportedStep step_from(const Json& j, size_t sizes) {
  ExportedStep step;
  for (const Json& v : j.at("variants").elements()) {
    step.variants.push_back({static_cast<int>(v.at("kernel").as_int()), {}});
    for (const Json& p : v.at("places").elements())
      step.variants.back().places.push_back(
          {static_cast<ExportedPlace::Where>(p.at(0).as_int()), p.at(1).as_int()});
  }
  step.tree = tree_from_json(j.at("tree"), numbers(sizes), step.variants.size());
  return step;
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
  j["arrays"] =
      list_of(p.arrays, [](const ExportedArray& a) { return Json::array({a.at, a.bytes}); });
  j["preparations"] = list_of(p.preparations, [](const ExportedPreparation& made) {
    return Json::object({{"kernel", made.kernel}, {"arrays", Json::array_of(made.arrays)}});
  });
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
  for (const Json& a : j.at("arrays").elements())
    p.arrays.push_back({a.at(0).as_int(), a.at(1).as_int()});
  for (const Json& made : j.at("preparations").elements())
    p.preparations.push_back(
        {static_cast<int>(made.at("kernel").as_int()), ints<int>(made.at("arrays"))});
  p.arena_bytes = j.at("arena_bytes").as_int();
  p.weights_bytes = j.at("weights_bytes").as_int();
  parse_hex(j.at("weights_hash").as_string(), &p.weights_hash);
  p.check_weights = j.at("check_weights").as_bool();
  return p;
}

}  // namespace heddle
