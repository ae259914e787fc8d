// The list of all passes, and the order in which they run.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "network/passes/graph_pass.h"
#include "support/edit_distance.h"

namespace heddle {
namespace network {
namespace {

using Pass = std::vector<Tensor> (*)(const PassContext&);

struct Step {
  const char* name;
  Pass pass;
};

// Views become visible when the transposes beside them are gone. They must be found before their
// readers read through them. Parts of joined products are slices, which are movers. Products are
// made of shorter numbers when weights are final; those of bytes are then products of dequantised
// bytes.
constexpr Step kSteps[] = {
    {"fold_constants", fold_constants},
    {"fold_movers", join_movers},
    {"move_bytes", move_bytes},
    {"integer_products", integer_products},
    {"fold_views", fold_views},
    {"fold_movers", fold_movers},
    {"factors_after_products", factors_after_products},
    {"factors_after_products", share_sums},
    {"factors_after_products", one_pass_moments},
    {"factors_after_products", join_equal},
    {"guards_after_products", guards_after_products},
    {"unflatten_sums", unflatten_sums},
    {"drop_taps", drop_taps},
    {"fold_scales", fold_scales},
    {"join_products", join_products},
    {"precision", precision},
    {"integer_products", integer_products},
    {"fold_movers", fold_movers},
    {"transpose_weights", transpose_weights},
    {"channels_last", channels_last},
    {"fold_views", fold_short_transposes},
    {"fold_views", last_as_read},
    {"fold_movers", fold_movers},
    {"fold_movers", drop_copies},
    {"horizontal", pack_filters},
    {"horizontal", join_outputs},
};

const PassDescription& description(const std::string& name) {
  const std::vector<PassDescription>& all = network_passes();
  return *std::find_if(all.begin(), all.end(),
                       [&](const PassDescription& p) { return p.name == name; });
}

}  // namespace

ComputeDag run_passes(const ComputeDag& declared, const Target& target, const PassOptions& options,
                      ChoiceList& choices, std::vector<PassApplication>& log,
                      const PassRange& range) {
  ComputeDag dag = declared;
  bool begun = range.from.empty();
  for (const Step& step : kSteps) {
    begun |= step.name == range.from;
    if (!begun) continue;
    if (step.name == range.until) break;
    const bool enabled = options.*description(step.name).enabled;
    const std::optional<ChoiceKind> kind = kind_of(step.name);
    if (!enabled && !(kind && choices.any_on(*kind))) continue;
    const size_t before = log.size();
    std::vector<Tensor> outputs =
        step.pass({dag, target, options, step.name, enabled, choices, log});
    if (log.size() > before) dag = ComputeDag(std::move(outputs));
  }
  return dag;
}

ComputeDag with_positions(const ComputeDag& declared, const Target& target,
                          const PassOptions& options, std::vector<PassApplication>& log) {
  ComputeDag dag = declared;
  if (!options.fold_constants) return dag;
  ChoiceList none(options);
  for (const Pass pass : {fold_constants, masks_of_positions}) {
    const size_t before = log.size();
    std::vector<Tensor> outputs = pass({dag, target, options, "fold_constants", true, none, log});
    if (log.size() > before) dag = ComputeDag(std::move(outputs));
  }
  return dag;
}

PassOptions without_passes(PassOptions options) {
  for (const PassDescription& pass : network_passes()) options.*pass.enabled = false;
  return options;
}

}  // namespace network

const std::vector<PassDescription>& network_passes() {
  static const std::vector<PassDescription> all = {
      {"fold_constants", "stages that read nothing are written into their readers",
       &PassOptions::fold_constants},
      {"fold_movers", "transposes, slices and reshapes are read through",
       &PassOptions::fold_movers},
      {"fold_views", "products are computed in the shape that their readers have",
       &PassOptions::fold_views},
      {"factors_after_products", "factors of operands multiply the results of products and sums",
       &PassOptions::factors_after_products},
      {"move_bytes", "bytes that are moved or joined between pairs of Q and DQ stay bytes",
       &PassOptions::move_bytes},
      {"integer_products", "products of dequantised bytes are products of bytes, and scaled",
       &PassOptions::integer_products},
      {"guards_after_products", "rows without a softmax become zero after the product with it",
       &PassOptions::guards_after_products},
      {"unflatten_sums", "reductions over a flattened shape run over its own axes",
       &PassOptions::unflatten_sums},
      {"drop_taps", "windows leave out taps that read nothing but padding",
       &PassOptions::drop_taps},
      {"fold_scales", "what multiplies the results of products (batch norm) goes into weights",
       &PassOptions::fold_scales},
      {"join_products", "products of one input (Q, K, V) are one product",
       &PassOptions::join_products, false},
      {"precision", "products whose types are named are made of shorter numbers",
       &PassOptions::precision},
      {"transpose_weights", "GPUs: weights have the elements of a sum one after another",
       &PassOptions::transpose_weights, false},
      {"channels_last", "images between convolutions have their channels innermost",
       &PassOptions::channels_last, false},
      {"concat_in_place", "parts of a concat are written where the whole lies",
       &PassOptions::concat_in_place},
      {"slices_in_place", "nodes that each read one slice of a tensor get it where it lies",
       &PassOptions::slices_in_place},
      {"horizontal", "small nodes of a GPU that do not depend on each other share a launch",
       &PassOptions::horizontal},
  };
  return all;
}

namespace {

constexpr char kMemory[] = "memory=", kTolerance[] = "tolerance=";
constexpr char kUnits[] = "KMG";

/// "64M"; a User error for anything else.
int64_t read_bytes(const std::string& text) {
  int64_t bytes = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, bytes);
  int shift = 0;
  if (error == std::errc() && rest + 1 == end) {
    const size_t unit = std::string(kUnits).find(*rest);
    if (unit != std::string::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      ++rest;
    }
  }
  if (error != std::errc() || rest != end || bytes <= 0 ||
      bytes > (std::numeric_limits<int64_t>::max() >> (shift + 1)))
    throw_user_error("'" + text + "' is no number of bytes", {},
                     "give a positive whole number, with K, M or G behind it: memory=64M");
  return bytes << shift;
}

/// "0.01"; a User error for anything else.
double read_tolerance(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value) || value < 0)
    throw_user_error("'" + text + "' is no tolerance", {},
                     "give a number that is not negative: tolerance=0.01");
  return value;
}

/// "precision@matmul:*=bf16"
void set_type(PassOptions& options, const std::string& item) {
  const size_t sign = item.rfind('=');
  if (sign == std::string::npos)
    throw_user_error("'" + item + "' names no type", {}, "name one behind it: " + item + "=bf16");
  options.types[item.substr(0, sign)] = parse_operand_type(item.substr(sign + 1));
}

}  // namespace

PassOptions parse_passes(const std::string& list, PassOptions base) {
  size_t begin = 0;
  while (begin < list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    if (name.starts_with(kMemory)) {
      base.memory = read_bytes(name.substr(sizeof(kMemory) - 1));
      continue;
    }
    if (name.starts_with(kTolerance)) {
      base.tolerance = read_tolerance(name.substr(sizeof(kTolerance) - 1));
      continue;
    }
    const bool on = name.empty() || name[0] != '-';
    if (!on) name.erase(0, 1);
    const auto kind = name.find('@') == std::string::npos ? std::nullopt : network::kind_of(name);
    const bool is_type = kind == network::ChoiceKind::Precision;
    if (is_type && on) {
      set_type(base, name);
      continue;
    }
    if (kind && !is_type) {
      base.choices[name] = on;
      continue;
    }
    if (name == "none") {
      base = network::without_passes(std::move(base));
      continue;
    }
    std::vector<std::string> known;
    bool found = false;
    for (const PassDescription& p : network_passes()) {
      known.push_back(p.name);
      if (name != p.name && name != "all") continue;
      base.*p.enabled = on;
      found = true;
    }
    if (found) continue;
    std::string hint = did_you_mean(name.substr(0, name.find('@')), known);
    if (!hint.empty()) hint += " ";
    hint += "the passes are";
    for (const std::string& k : known) hint += " " + k;
    throw_user_error("there is no pass '" + name + "'", {}, hint);
  }
  return base;
}

std::string to_string(const PassOptions& options) {
  const PassOptions usual;
  std::string text;
  for (const PassDescription& p : network_passes()) {
    if (options.*p.enabled == usual.*p.enabled) continue;
    text += (text.empty() ? "" : ",") + std::string(options.*p.enabled ? "" : "-") + p.name;
  }
  if (options.memory > 0)
    text += (text.empty() ? "" : ",") + (kMemory + std::to_string(options.memory));
  for (const auto& [name, on] : options.choices)
    text += (text.empty() ? "" : ",") + std::string(on ? "" : "-") + name;
  if (options.tolerance > 0)
    text += (text.empty() ? "" : ",") + (kTolerance + Json(options.tolerance).dump());
  for (const auto& [name, type] : options.types)
    text += (text.empty() ? "" : ",") + name + "=" + to_string(type);
  return text;
}

}  // namespace heddle
