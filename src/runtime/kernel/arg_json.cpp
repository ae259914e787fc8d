#include "runtime/kernel/arg_json.h"

#include <optional>

#include "heddle/support/error.h"

namespace heddle {

Json arg_to_json(const KernelArg& arg) {
  Json j = Json::object({{"name", arg.name}, {"dtype", to_string(arg.dtype)}});
  j["shape"] = Json::array_of(arg.shape);
  if (arg.output) j["output"] = true;
  if (arg.constant) j["constant"] = true;
  if (arg.alignment > 0) j["alignment"] = arg.alignment;
  for (const SymbolicExtent& e : arg.symbolic) {
    Json terms = Json::array();
    for (const auto& [size, factor] : e.terms) terms.push_back(Json::array({size, factor}));
    j["symbolic"].push_back(
        Json::object({{"dim", e.dim}, {"constant", e.constant}, {"terms", std::move(terms)}}));
  }
  return j;
}

Json args_to_json(const std::vector<KernelArg>& args) {
  Json list = Json::array();
  for (const KernelArg& arg : args) list.push_back(arg_to_json(arg));
  return list;
}

KernelArg arg_from_json(const Json& json) {
  KernelArg arg;
  arg.name = json.at("name").as_string();
  const std::string dtype = json.at("dtype").as_string();
  const std::optional<DataType> parsed = parse_dtype(dtype);
  if (!parsed) throw_user_error("an argument of a kernel has the unknown type '" + dtype + "'");
  arg.dtype = *parsed;
  for (const Json& extent : json.at("shape").elements()) arg.shape.push_back(extent.as_int());
  arg.output = json.get_bool("output", false);
  arg.constant = json.get_bool("constant", false);
  arg.alignment = static_cast<int>(json.get_int("alignment", 0));
  const Json* symbolic = json.find("symbolic");
  if (symbolic == nullptr) return arg;
  for (const Json& e : symbolic->elements()) {
    SymbolicExtent extent{.dim = static_cast<int>(e.at("dim").as_int()),
                          .constant = e.at("constant").as_int(),
                          .terms = {}};
    for (const Json& t : e.at("terms").elements())
      extent.terms.push_back({static_cast<int>(t.at(0).as_int()), t.at(1).as_int()});
    arg.symbolic.push_back(std::move(extent));
  }
  return arg;
}

std::vector<KernelArg> args_from_json(const Json& list) {
  std::vector<KernelArg> args;
  for (const Json& each : list.elements()) args.push_back(arg_from_json(each));
  return args;
}

}  // namespace heddle
