#include "onnx/file/check_model.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "onnx/node_scope.h"
#include "support/edit_distance.h"

namespace heddle::onnx {
namespace {

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Adds the nodes of operators that are not supported, those of graphs inside nodes too.
void find_unknown(const Graph& graph, std::string& unknown, size_t& count) {
  for (const Node& node : graph.nodes) {
    for (const Subgraph& inner : graphs_in(node)) find_unknown(*inner, unknown, count);
    if (find_operator(node.domain, node.op) != nullptr) continue;
    std::string line = node.describe();
    if (!node.domain.empty()) line += " of domain '" + node.domain + "'";
    if (++count <= kMostMistakes) add_line(unknown, line);
  }
}

}  // namespace

void add_line(std::string& text, const std::string& line) {
  text += (text.empty() ? "" : "\n    ") + line;
}

std::string dim_name(const ValueInfo& info, size_t d) {
  return info.shape[d].name.empty() ? info.name + ":" + std::to_string(d) : info.shape[d].name;
}

void check_precision(DataType precision) {
  if (precision != f32 && precision != f16 && precision != bf16)
    throw_user_error("the precision is " + to_string(precision), {}, "f32, f16 or bf16");
}

void check_operators(const Graph& graph) {
  std::string unknown;
  size_t count = 0;
  find_unknown(graph, unknown, count);
  if (count == 0) return;
  if (count > kMostMistakes)
    add_line(unknown, "and " + std::to_string(count - kMostMistakes) + " more");
  throw_user_error("operators that are not supported:\n    " + unknown, {},
                   "`heddle onnx --coverage` shows those that are");
}

void check_dims(const Graph& graph, const OnnxOptions& options) {
  std::vector<std::string> open, missing;
  std::string missing_at;
  const auto is_given = [&](const std::string& name) {
    return options.dims.count(name) > 0 || options.ranges.count(name) > 0 ||
           options.sums.count(name) > 0;
  };
  for (const ValueInfo& info : graph.inputs) {
    for (size_t d = 0; d < info.shape.size(); ++d) {
      const bool is_batch = d == 0 && options.batch != 0;
      if (!is_batch && info.shape[d].extent >= 0) continue;
      const std::string name = dim_name(info, d);
      if (!is_in(open, name)) open.push_back(name);
      if (is_batch || is_given(name) || is_in(missing, name)) continue;
      if (missing.empty())
        missing_at = "dimension " + std::to_string(d) + " of input '" + info.name + "'";
      missing.push_back(name);
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, extent] : options.dims) names.push_back(name);
  for (const auto& [name, range] : options.ranges) names.push_back(name);
  for (const auto& [name, parts] : options.sums) {
    names.push_back(name);
    for (const std::string& part : parts) {
      names.push_back(part);
      if (options.dims.count(part) > 0 || options.ranges.count(part) > 0) continue;
      throw_user_error("dimension '" + name + "' is a sum with '" + part + "', which has no extent",
                       {}, "give it one, or a range: " + part + "=1..8");
    }
  }
  for (const std::string& name : names) {
    if (is_in(open, name)) continue;
    std::string help = did_you_mean(name, open), list;
    for (const std::string& known : open) list += (list.empty() ? "" : ", ") + known;
    if (!help.empty()) help += " ";
    help += list.empty() ? "all of its inputs have fixed extents" : "the open ones are " + list;
    throw_user_error("no input has a dimension '" + name + "'", {}, help);
  }
  if (missing.empty()) return;
  std::string entries, words;
  for (const std::string& name : missing) {
    entries += (entries.empty() ? "{\"" : ", {\"") + name + "\", 1}";
    words += (words.empty() ? "" : ",") + name + "=1";
  }
  throw_user_error(missing_at + " is '" + missing.front() + "', which has no extent", {},
                   "on the command line MODEL:" + words + " (the same as --dims " + words +
                       "), or a range, MODEL:" + missing.front() + "=1..8; in C++ .dims = {" +
                       entries + "}");
}

}  // namespace heddle::onnx
