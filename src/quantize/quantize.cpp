#include "heddle/quantize/quantize.h"

#include <algorithm>
#include <utility>

#include "quantize/decide.h"
#include "quantize/observe.h"
#include "quantize/ranges.h"
#include "quantize/write.h"
#include "support/files/file.h"

namespace heddle::quantize {
namespace {

using Samples = std::map<std::string, NDArray>;

void check_options(const QuantizeOptions& options) {
  if (!(options.percentile > 50 && options.percentile <= 100))
    throw_user_error("the percentile is " + std::to_string(options.percentile), {},
                     "a number above 50, up to 100, such as 99.99");
  if (options.activations != u8 && options.activations != i8)
    throw_user_error("the type of tensors is " + to_string(options.activations), {}, "u8 or i8");
  if (options.batch < 1)
    throw_user_error("a call takes " + std::to_string(options.batch) + " samples", {},
                     "at least one");
}

/// QuantizeLinear came with operator set 10, and scales of channels with 13.
void check_opset(const onnx::Model& model, const QuantizeOptions& options) {
  const int64_t needed = options.per_channel ? 13 : 10;
  for (const onnx::Node& node : model.graph.nodes) {
    if (!node.domain.empty() || node.opset >= needed) continue;
    throw_user_error("'" + model.path + "': its operator set is " + std::to_string(node.opset) +
                         ", and " + std::to_string(needed) + " is needed",
                     {}, "export it again, or use onnx.version_converter");
  }
}

std::map<std::string, Scale> scales_of(const Decision& decision, const ObservedModel& observed,
                                       const QuantizeOptions& options) {
  const size_t count = decision.tensors.size();
  std::vector<SeenValues> seen(count);
  for (int64_t c = 0; c < observed.calls(); ++c) {
    const std::vector<NDArray>& values = observed.call(c);
    for (size_t t = 0; t < count; ++t) seen[t].widen(values[t], decision.tensors[t]);
  }
  for (int64_t c = 0; options.method != RangeMethod::MinMax && c < observed.calls(); ++c) {
    const std::vector<NDArray>& values = observed.call(c);
    for (size_t t = 0; t < count; ++t) seen[t].count(values[t]);
  }
  std::map<std::string, size_t> place;
  for (size_t t = 0; t < count; ++t) place[decision.tensors[t]] = t;
  std::map<std::string, Scale> scales;
  for (const std::string& name : decision.tensors) {
    std::string source = name;
    for (auto next = decision.range_of.find(source); next != decision.range_of.end();
         next = decision.range_of.find(source))
      source = next->second;
    scales[name] = scale_of(seen[place.at(source)].range(options), options.activations);
  }
  return scales;
}

std::vector<std::string> with_outputs(std::vector<std::string> names, const onnx::Model& model) {
  for (const onnx::ValueInfo& output : model.graph.outputs) names.push_back(output.name);
  return names;
}

/// Runs both networks on the samples, and adds tensors and outputs to the report.
void compare(const Decision& decision, const std::map<std::string, Scale>& scales,
             const ObservedModel& real, const ObservedModel& bytes, const onnx::Model& model,
             QuantizeReport& report) {
  const size_t tensors = decision.tensors.size(), outputs = model.graph.outputs.size();
  std::vector<Noise> own(tensors), all(tensors + outputs);
  for (int64_t c = 0; c < real.calls(); ++c) {
    const std::vector<NDArray>& a = real.call(c);
    const std::vector<NDArray>& b = bytes.call(c);
    for (size_t t = 0; t < tensors + outputs; ++t) {
      const Scale* scale = t < tensors ? &scales.at(decision.tensors[t]) : nullptr;
      for (int64_t i = 0; i < a[t].size(); ++i) {
        const double value = a[t].get(i);
        all[t].add(value, b[t].get(i));
        if (scale) own[t].add(value, scale->rounded(value));
      }
    }
  }
  std::map<std::string, std::string> makers;
  for (const onnx::Node& node : model.graph.nodes) {
    for (const std::string& name : node.outputs) makers[name] = node.describe();
  }
  for (size_t t = 0; t < tensors; ++t) {
    const std::string& name = decision.tensors[t];
    const Scale& s = scales.at(name);
    const double low = s.dtype == i8 ? -128 : 0, zero = static_cast<double>(s.zero);
    const auto maker = makers.find(name);
    report.tensors.push_back({.name = name,
                              .node = maker == makers.end() ? "an input" : maker->second,
                              .low = (low - zero) * s.scale,
                              .high = (low + 255 - zero) * s.scale,
                              .scale = s.scale,
                              .zero = s.zero,
                              .dtype = s.dtype,
                              .own_snr = own[t].snr(),
                              .snr = all[t].snr()});
  }
  for (size_t o = 0; o < outputs; ++o) {
    const Noise& noise = all[tensors + o];
    report.outputs.push_back({.name = model.graph.outputs[o].name,
                              .snr = noise.snr(),
                              .largest = noise.largest,
                              .largest_of_f32 = noise.largest_signal});
  }
}

QuantizeReport run(const std::string& path, const Samples& samples, const std::string& output,
                   const QuantizeOptions& options) {
  check_options(options);
  const std::string file = read_file(path);
  const onnx::Model model = onnx::read_model(path);
  check_opset(model, options);
  const Decision decision = decide(model, options);
  if (decision.products.empty()) {
    std::string why;
    for (const QuantizedNode& n : decision.nodes) why += "; " + n.node + ": " + n.in_float;
    throw_user_error("'" + path + "' has no product with constant weights in f32" + why);
  }
  QuantizeReport report;
  report.nodes = decision.nodes;
  report.other_nodes = decision.other_nodes;
  const ObservedModel real(model, with_outputs(decision.tensors, model), samples, options.batch);
  report.samples = real.samples();
  const std::map<std::string, Scale> scales = scales_of(decision, real, options);
  const WrittenModel written = write_model(file, model, decision, scales, options);
  report.weight_bytes = written.weight_bytes;
  report.weight_bytes_before = written.weight_bytes_before;

  std::vector<std::string> names;
  for (const std::string& name : decision.tensors) names.push_back(written.stands_for.at(name));
  const ObservedModel bytes(onnx::parse_model(written.bytes, path), with_outputs(names, model),
                            samples, options.batch);
  compare(decision, scales, real, bytes, model, report);
  write_file_atomic(output, written.bytes);
  return report;
}

}  // namespace
}  // namespace heddle::quantize

namespace heddle {

QuantizeReport quantize_onnx(const std::string& path, const std::map<std::string, NDArray>& samples,
                             const std::string& output, const QuantizeOptions& options,
                             Where where) {
  try {
    return quantize::run(path, samples, output, options);
  } catch (const Error& e) {
    throw Error(e.kind, e.message, where, e.help);
  }
}

}  // namespace heddle
