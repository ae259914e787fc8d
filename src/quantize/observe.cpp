#include "quantize/observe.h"

#include <algorithm>
#include <set>
#include <utility>

#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle::quantize {
namespace {

[[noreturn]] void wrong_samples(const std::string& input, const std::string& what,
                                const std::string& help = {}) {
  throw_user_error("the samples of input '" + input + "' " + what, {}, help);
}

std::vector<std::string> names_of(const std::vector<onnx::ValueInfo>& values) {
  std::vector<std::string> names;
  for (const onnx::ValueInfo& v : values) names.push_back(v.name);
  return names;
}

void check_names(const onnx::Model& model, const std::map<std::string, NDArray>& samples) {
  const std::vector<std::string> names = names_of(model.graph.inputs);
  for (const auto& [name, array] : samples) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw_user_error("the model has no input '" + name + "', for which there are samples", {},
                       did_you_mean(name, names));
  }
}

/// Leaves out inputs without samples that no output depends on.
void drop_unread_inputs(onnx::Graph& graph, const std::map<std::string, NDArray>& samples) {
  std::set<std::string> read;
  for (const onnx::ValueInfo& output : graph.outputs) read.insert(output.name);
  for (const onnx::Node* node : onnx::needed_nodes(graph)) {
    read.insert(node->inputs.begin(), node->inputs.end());
    read.merge(onnx::captured_names(*node));
  }
  std::erase_if(graph.inputs, [&](const onnx::ValueInfo& input) {
    return !read.count(input.name) && !samples.count(input.name);
  });
}

}  // namespace

ObservedModel::ObservedModel(onnx::Model model, const std::vector<std::string>& names,
                             const std::map<std::string, NDArray>& samples, int64_t batch)
    : data_(samples) {
  check_names(model, samples);
  model.graph.outputs.clear();
  for (const std::string& name : names) {
    onnx::ValueInfo info;
    info.name = name;
    model.graph.outputs.push_back(info);
  }
  drop_unread_inputs(model.graph, samples);
  fix_shapes(model, batch);
  model_ = onnx::import_model(std::move(model), {}, {});
  const Network network(model_.outputs);
  kernel_ = network.build(model_.args());
  for (const Tensor& t : model_.outputs) outputs_.push_back(NDArray::zeros(t.extents(), t.dtype()));
  for (size_t i = 0; i < model_.inputs.size(); ++i) {
    const NDArray& array = data_.at(model_.input_names[i]);
    if (array.dtype() != model_.inputs[i].dtype())
      wrong_samples(model_.input_names[i], "are " + to_string(array.dtype()) + ", and it is " +
                                               to_string(model_.inputs[i].dtype()));
  }
}

// Gives each dimension of the inputs the extent that the samples have.
void ObservedModel::fix_shapes(onnx::Model& model, int64_t batch) {
  for (onnx::ValueInfo& input : model.graph.inputs) {
    const auto found = data_.find(input.name);
    if (found == data_.end())
      throw_user_error("there are no samples of input '" + input.name + "'", {},
                       "the data have an array for each input, by its name");
    const NDArray& array = found->second;
    if (!input.has_shape || input.shape.empty() ||
        static_cast<size_t>(array.rank()) != input.shape.size())
      wrong_samples(input.name,
                    "have " + std::to_string(array.rank()) + " dimensions, and it has " +
                        std::to_string(input.shape.size()),
                    "the first dimension counts the samples");
    const int64_t rows =
        input.shape[0].extent < 0 ? std::min(batch, array.extent(0)) : input.shape[0].extent;
    if (rows < 1 || array.extent(0) < rows)
      wrong_samples(input.name, "are " + std::to_string(array.extent(0)) + ", and a call takes " +
                                    std::to_string(rows));
    for (size_t d = 0; d < input.shape.size(); ++d) {
      const int64_t extent = d == 0 ? rows : array.extent(static_cast<int>(d));
      if (input.shape[d].extent >= 0 && input.shape[d].extent != extent)
        wrong_samples(input.name, "have the extent " + std::to_string(extent) + " in dimension " +
                                      std::to_string(d) + ", and it has " +
                                      std::to_string(input.shape[d].extent));
      input.shape[d].extent = extent;
    }
    const int64_t calls = (array.extent(0) + rows - 1) / rows;
    if (calls_ != 0 && calls != calls_)
      wrong_samples(input.name, "are enough for " + std::to_string(calls) +
                                    " calls, and those of another input for " +
                                    std::to_string(calls_));
    calls_ = calls;
    samples_ = std::max(samples_, array.extent(0));
    rows_[input.name] = rows;
  }
}

const std::vector<NDArray>& ObservedModel::call(int64_t number) const {
  std::vector<NDArray> inputs;
  for (const std::string& name : model_.input_names) {
    const NDArray& array = data_.at(name);
    const int64_t rows = rows_.at(name);
    const int64_t begin = std::min(number * rows, array.extent(0) - rows);
    inputs.push_back(array.rows(begin, begin + rows).copy());
  }
  kernel_.call(model_.arrays(inputs, outputs_));
  return outputs_;
}

}  // namespace heddle::quantize
