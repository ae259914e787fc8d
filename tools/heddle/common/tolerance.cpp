#include "common/tolerance.h"

#include <iostream>
#include <string>
#include <utility>

#include "common/output_file.h"
#include "heddle/network/plan.h"
#include "heddle/quantize/precision.h"
#include "heddle/runtime/npz.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "network/run/output_difference.h"
#include "support/files/file.h"

namespace heddle::cli {
std::vector<std::vector<NDArray>> calls_of_data(const Request& options, const Network& network) {
  if (options.data.empty()) return {};
  std::vector<std::string> names;
  std::vector<Tensor> inputs;
  for (const Tensor& t : network::call_args(network)) {
    if (!t.op()->is_placeholder()) continue;
    names.push_back(t.name());
    inputs.push_back(t);
  }
  return calls_of_samples(load_npz(options.data), names, inputs);
}

Network within_tolerance(const Request& options, const Network& network) {
  if (options.tolerance < 0) {
    for (const auto& [option, value] :
         {std::pair("--data", &options.data), std::pair("--types-json", &options.types_json)}) {
      if (!value->empty())
        throw_user_error(std::string(option) + " goes with --tolerance, which is not given", {},
                         "say which error the outputs may have: --tolerance 0.01");
    }
    return network;
  }
  if (!parse_passes(options.passes).types.empty())
    throw_user_error("--passes names types of products, and --tolerance chooses them", {},
                     "leave one of the two out");
  if (!options.types_json.empty()) check_writable(options.types_json);
  const auto say = [&](const std::string& text, const Json& json) {
    if (!options.quiet) std::cerr << text;
    if (!options.types_json.empty()) write_file_atomic(options.types_json, json.dump(2) + "\n");
  };
  if (network.plan() != nullptr && network.pass_options().tolerance > 0 &&
      network.pass_options().tolerance == options.tolerance) {
    say("tolerance: the plan has the types of " +
            std::to_string(network.pass_options().types.size()) + " products for it\n",
        Json::object({{"tolerance", options.tolerance},
                      {"outcome", "planned"},
                      {"passes", to_string(network.pass_options())}}));
    return network;
  }
  const PrecisionChoice choice =
      choose_precision(network, network::call_args(network),
                       {.tolerance = options.tolerance, .calls = calls_of_data(options, network)});
  say(choice.to_string(), choice.to_json());
  return with_types(network, choice);
}

}  // namespace heddle::cli
