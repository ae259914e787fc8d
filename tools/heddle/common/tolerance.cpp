#include "common/tolerance.h"

#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/output_file.h"
#include "heddle/generate/precision.h"
#include "heddle/network/plan.h"
#include "heddle/quantize/precision.h"
#include "heddle/runtime/npz.h"
#include "heddle/support/error.h"
#include "heddle/support/function_ref.h"
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

namespace {

/// Makes the choice that is asked for, and says what came of it; nothing where none is asked for, or where
/// the network's plan has made it.
std::optional<PrecisionChoice> chosen(const Request& options, const Network& network,
                                      FunctionRef<PrecisionChoice()> choose) {
  if (options.tolerance < 0) {
    for (const auto& [option, value] :
         {std::pair("--data", &options.data), std::pair("--types-json", &options.types_json)}) {
      if (!value->empty())
        throw_user_error(std::string(option) + " goes with --tolerance, which is not given", {},
                         "say which error the outputs may have: --tolerance 0.01");
    }
    return std::nullopt;
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
    return std::nullopt;
  }
  PrecisionChoice choice = choose();
  say(choice.to_string(), choice.to_json());
  return choice;
}

/// The rows of --data, which are texts; none where that is not given.
std::vector<std::vector<int64_t>> texts_of_data(const std::string& path) {
  if (path.empty()) return {};
  const std::map<std::string, NDArray> data = load_npz(path);
  const auto found = data.find("input_ids");
  if (found == data.end() || found->second.rank() != 2 || !found->second.dtype().is_integral())
    throw_user_error("'" + path + "' has no array input_ids of (texts, tokens)", {},
                     "write one of whole numbers: np.savez(path, input_ids=tokens)");
  const NDArray& ids = found->second;
  std::vector<std::vector<int64_t>> texts(static_cast<size_t>(ids.extent(0)));
  for (int64_t i = 0; i < ids.size(); ++i)
    texts[static_cast<size_t>(i / ids.extent(1))].push_back(static_cast<int64_t>(ids.get(i)));
  return texts;
}

}  // namespace

Network within_tolerance(const Request& options, const Network& network) {
  const std::optional<PrecisionChoice> choice = chosen(options, network, [&] {
    return choose_precision(
        network, network::call_args(network),
        {.tolerance = options.tolerance, .calls = calls_of_data(options, network)});
  });
  return choice ? with_types(network, *choice) : network;
}

std::optional<PrecisionChoice> types_of_decoder(const Request& options, const OnnxModel& model,
                                                const Network& network) {
  return chosen(options, network, [&] {
    return choose_precision(model, network,
                            {.tolerance = options.tolerance, .texts = texts_of_data(options.data)});
  });
}

}  // namespace heddle::cli
