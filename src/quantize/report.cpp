// What a user reads of a quantisation.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "heddle/quantize/quantize.h"
#include "support/table.h"

namespace heddle {
namespace {

std::string decibels(double snr) { return std::isinf(snr) ? "exact" : format_fixed(snr, 1); }

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// What stays in f32: products with the reason, then the other operators with their numbers.
std::string in_float(const QuantizeReport& report) {
  std::string text;
  for (const QuantizedNode& n : report.nodes) {
    if (!n.in_float.empty()) text += "  " + n.node + ": " + n.in_float + "\n";
  }
  std::string others;
  for (const auto& [op, count] : report.other_nodes)
    others += (others.empty() ? "" : ", ") + std::to_string(count) + " " + op;
  if (!others.empty()) text += "  nodes without an integer form: " + others + "\n";
  return text;
}

}  // namespace

RangeMethod range_method_of(const std::string& text) {
  if (text == "minmax") return RangeMethod::MinMax;
  if (text == "percentile") return RangeMethod::Percentile;
  if (text == "entropy") return RangeMethod::Entropy;
  throw_user_error("there is no way '" + text + "' to find ranges", {},
                   "minmax, percentile or entropy");
}

std::string QuantizeReport::to_string() const {
  Table table({"tensor", "of", "range", "type", "scale", "zero", "own dB", "dB"});
  for (const size_t left : {1, 2, 3}) table.align_left(left);
  for (const QuantizedTensor& t : tensors)
    table.add_row({t.name, t.node, number(t.low) + " .. " + number(t.high),
                   heddle::to_string(t.dtype), number(t.scale), std::to_string(t.zero),
                   decibels(t.own_snr), decibels(t.snr)});
  std::string text = table.to_string() +
                     "own dB: signal to noise of rounding this tensor alone; dB: of the quantised "
                     "network up to here, both against f32\n\n";
  const auto quantised = std::count_if(nodes.begin(), nodes.end(),
                                       [](const QuantizedNode& n) { return n.in_float.empty(); });
  text += std::to_string(quantised) + " nodes are quantised; their weights take " +
          std::to_string(weight_bytes) + " bytes in place of " +
          std::to_string(weight_bytes_before) + "\n";
  const std::string rest = in_float(*this);
  if (!rest.empty()) text += "in f32:\n" + rest;
  for (const QuantizedOutput& o : outputs)
    text += "output '" + o.name + "': " + decibels(o.snr) + " dB on " + std::to_string(samples) +
            " samples, largest difference " + number(o.largest) + " where f32 has up to " +
            number(o.largest_of_f32) + "\n";
  return text;
}

Json QuantizeReport::to_json() const {
  Json j = Json::object();
  j["samples"] = samples;
  j["weight_bytes"] = weight_bytes;
  j["weight_bytes_before"] = weight_bytes_before;
  j["tensors"] = Json::array();
  for (const QuantizedTensor& t : tensors)
    j["tensors"].push_back(Json::object({{"name", t.name},
                                         {"node", t.node},
                                         {"low", t.low},
                                         {"high", t.high},
                                         {"type", heddle::to_string(t.dtype)},
                                         {"scale", t.scale},
                                         {"zero", t.zero},
                                         {"own_snr_db", t.own_snr},
                                         {"snr_db", t.snr}}));
  j["nodes"] = Json::array();
  for (const QuantizedNode& n : nodes)
    j["nodes"].push_back(Json::object(
        {{"node", n.node}, {"quantised", n.in_float.empty()}, {"in_float", n.in_float}}));
  j["other_nodes"] = Json::object();
  for (const auto& [op, count] : other_nodes) j["other_nodes"][op] = count;
  j["outputs"] = Json::array();
  for (const QuantizedOutput& o : outputs)
    j["outputs"].push_back(Json::object({{"name", o.name},
                                         {"snr_db", o.snr},
                                         {"largest_difference", o.largest},
                                         {"largest_of_f32", o.largest_of_f32}}));
  return j;
}

}  // namespace heddle
