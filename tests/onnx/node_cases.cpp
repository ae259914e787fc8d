#include "onnx/node_cases.h"

#include <cstring>
#include <map>
#include <set>

#include "heddle/codegen/interpreter.h"
#include "heddle/network/network.h"
#include "heddle/support/error.h"
#include "onnx/file/graph.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

using Arrays = std::map<std::string, NDArray>;

struct Case {
  onnx::Model model;
  Arrays inputs, outputs;
  std::set<std::string> four_bits;  ///< inputs of integers of 4 bits
};

Case read_case(const std::string& bytes) {
  Case c;
  c.model = onnx::parse_model(bytes, "case");
  auto& initializers = c.model.graph.initializers;
  for (auto it = initializers.begin(); it != initializers.end();) {
    Arrays* target = nullptr;
    size_t prefix = 0;
    for (const auto& [kind, arrays] :
         {std::pair{"test:input:", &c.inputs}, {"test:output:", &c.outputs}}) {
      if (it->first.rfind(kind, 0) != 0) continue;
      target = arrays;
      prefix = std::strlen(kind);
    }
    if (target == nullptr) {
      ++it;
      continue;
    }
    target->emplace(it->first.substr(prefix), it->second);
    if (c.model.graph.four_bits.count(it->first) > 0) c.four_bits.insert(it->first.substr(prefix));
    it = initializers.erase(it);
  }
  return c;
}

// Makes constants of integer inputs of rank 0 or 1 (and numbers), or of all of them.
void fix_inputs(Case& c, bool all) {
  std::vector<onnx::ValueInfo> open;
  for (const onnx::ValueInfo& info : c.model.graph.inputs) {
    const NDArray& array = c.inputs.at(info.name);
    const bool decides = array.rank() <= 1 && (array.dtype().is_integral() || array.size() <= 1);
    if (all || decides || array.size() == 0) {
      c.model.graph.initializers.emplace(info.name, array);
      if (c.four_bits.count(info.name) > 0) c.model.graph.four_bits.insert(info.name);
    } else {
      open.push_back(info);
    }
  }
  c.model.graph.inputs = open;
}

OnnxModel import_case(const std::string& bytes, Case& c) {
  for (const int fixed : {0, 1, 2}) {
    c = read_case(bytes);
    if (fixed > 0) fix_inputs(c, fixed == 2);
    try {
      return onnx::import_model(c.model, {}, Where::current());
    } catch (const Error& e) {
      if (fixed == 2) throw;
    }
  }
  return {};
}

std::vector<NDArray> evaluate(const OnnxModel& model, const Arrays& inputs, Engine engine) {
  std::vector<NDArray> given, made;
  for (const std::string& name : model.input_names) given.push_back(inputs.at(name));
  if (engine == Engine::Kernels) {
    for (const Tensor& t : model.outputs) made.push_back(NDArray::full(t.extents(), t.dtype(), 77));
    Network(model.outputs).build(model.args()).call(model.arrays(given, made));
    return made;
  }
  std::vector<TensorValue> known;
  for (size_t i = 0; i < given.size(); ++i) known.push_back({model.inputs[i], given[i]});
  return interpret(model.outputs, known);
}

/// The rows of an output that are results.
NDArray results_of(const OnnxModel& model, const std::vector<NDArray>& made, size_t output) {
  for (const OnnxOpenOutput& open : model.open_outputs) {
    if (open.output != static_cast<int>(output)) continue;
    const NDArray& all = made[output];
    std::vector<int> order;
    for (int d = 0; d < all.rank(); ++d) order.push_back(d);
    std::swap(order[0], order[static_cast<size_t>(open.axis)]);
    const auto count = static_cast<int64_t>(made[static_cast<size_t>(open.count)].get(0));
    return all.permute(order).rows(0, count).permute(order);
  }
  return made[output];
}

std::string difference(const NDArray& got, const NDArray& want) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape())
    return describe(got) + ", expected " + describe(want);
  const bool narrow = want.dtype() == f16 || want.dtype() == bf16;
  const bool exact = want.dtype().is_integral();
  const Difference d = compare(got, want,
                               exact    ? 0
                               : narrow ? 2e-2
                                        : 1e-3,
                               exact    ? 0
                               : narrow ? 1e-2
                                        : 1e-5);
  return d.ok() ? "" : describe(d, got);
}

}  // namespace

std::vector<std::string> read_cases(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<std::string> cases;
  for (size_t at = 0; at + 4 <= bytes.size();) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at, 4);
    cases.push_back(bytes.substr(at + 4, length));
    at += 4 + length;
  }
  return cases;
}

CaseResult run_case(const std::string& model, Engine engine) {
  CaseResult result;
  Case c;
  OnnxModel imported;
  try {
    c = read_case(model);
    result.name = c.model.graph.name;
    imported = import_case(model, c);
  } catch (const Error& e) {
    result.status =
        e.kind == ErrorKind::User ? CaseResult::Status::Unsupported : CaseResult::Status::Failed;
    result.message = e.message;
    return result;
  }
  try {
    const std::vector<NDArray> made = evaluate(imported, c.inputs, engine);
    for (size_t o = 0; o < made.size() - imported.open_outputs.size(); ++o) {
      const std::string d =
          difference(results_of(imported, made, o), c.outputs.at(imported.output_names[o]));
      if (!d.empty()) result.message += imported.output_names[o] + ": " + d + "; ";
    }
  } catch (const std::exception& e) {
    result.message = e.what();
  }
  if (!result.message.empty()) result.status = CaseResult::Status::Failed;
  return result;
}

}  // namespace heddle::testing
