// Imports a model with dimensions whose sizes calls give. It is imported at some sizes, from which
// one declaration over the dimensions is made.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "dag/creation_order.h"
#include "dag/sizes/generalizer.h"
#include "dag/sizes/repeats.h"
#include "dsl/computed_for_loops.h"
#include "heddle/dag/generalize.h"
#include "heddle/support/error.h"
#include "onnx/file/graph.h"

namespace heddle::onnx {
namespace {

/// The declaration with fixed sizes of some dimensions.
struct Declared {
  OnnxModel largest;  ///< model at the largest sizes of the others
  std::vector<Tensor> outputs;
  /// Tensors of `largest`, and their counterparts in the declaration of `outputs`.
  std::vector<std::pair<Tensor, Tensor>> tensors;
  NodeNames names;  ///< names of the operations of `outputs`
};

class RangeImporter {
 public:
  RangeImporter(const Model& model, const OnnxOptions& options, Where where)
      : model_(model),
        options_(options),
        where_(where),
        ranges_(options.ranges.begin(), options.ranges.end()) {
    options_.ranges.clear();
    for (const auto& [name, range] : ranges_) {
      if (options_.dims.count(name) > 0)
        throw_user_error("dimension '" + name + "' is to be " +
                             std::to_string(options_.dims[name]) + ", and a range as well",
                         {}, "give one of the two");
    }
  }

  OnnxModel run() {
    std::optional<Declared> made;
    while (!made) {
      const size_t known = notes_.unfolded.size() + notes_.looped.size();
      try {
        made = declare(0);
      } catch (const Error& e) {
        if (e.kind != ErrorKind::User || notes_.unfolded.size() + notes_.looped.size() == known)
          throw;
      }
    }
    Declared all = std::move(*made);
    const Instance over{{}, all.tensors};
    OnnxModel model = std::move(all.largest);
    for (const auto& [name, range] : ranges_) model.dims.push_back(range);
    for (std::vector<Tensor>* list : {&model.inputs, &model.constants}) *list = over.of(*list);
    move_loops(model, over, all.outputs);
    all.outputs.resize(model.outputs.size());
    model.outputs = std::move(all.outputs);
    return model;
  }

 private:
  /// The loops of the declaration over the dimensions, which has `outputs`: those of the model, then what
  /// loops read and write. `over` has its inputs.
  static void move_loops(OnnxModel& model, Instance over, const std::vector<Tensor>& outputs) {
    const std::vector<Tensor> computed = computed_for(model.updates.repeats);
    for (size_t i = 0; i < computed.size(); ++i)
      over.tensors.emplace_back(computed[i], outputs[model.outputs.size() + i]);
    model.updates.repeats = dag::repeats_in(over, model.updates.repeats);
  }

  /// Makes the declaration over the dimensions from number `first` on. Those before it have sizes
  /// in `options_`.
  Declared declare(size_t first) {
    if (first == ranges_.size()) return at_sizes();
    const auto& [name, range] = ranges_[first];
    std::optional<Declared> largest;
    const Generalized made = generalize(
        range,
        [&](int64_t size) {
          options_.dims[name] = size;
          Declared here = declare(first + 1);
          std::vector<Tensor> outputs = here.outputs;
          if (largest) find_varying(largest->outputs, outputs);
          if (!largest) largest = std::move(here);
          return outputs;
        },
        [&](const Operation& op) -> std::string {
          const auto known = largest->names.find(&op);
          return known == largest->names.end() ? "" : known->second;
        });
    options_.dims.erase(name);
    Declared all{std::move(largest->largest), made.outputs, {}, {}};
    const Instance next{{}, made.tensors};
    for (const auto& [tensor, inner] : largest->tensors) {
      // What a loop offers, and no turn reads, has no counterpart.
      const bool is_read = std::any_of(made.tensors.begin(), made.tensors.end(),
                                       [&](const auto& pair) { return pair.first.same_as(inner); });
      if (is_read) all.tensors.emplace_back(tensor, next.of(inner));
    }
    for (const auto& [inner, outer] : made.tensors) {
      const auto known = largest->names.find(inner.op());
      if (known != largest->names.end()) all.names.emplace(outer.op(), known->second);
    }
    return all;
  }

  /// Finds the values that were computed at import and differ between two sizes in more than their
  /// length, such as positions behind a past. They have to be computed by every call.
  void find_varying(const std::vector<Tensor>& large, const std::vector<Tensor>& small) {
    std::map<std::string, NDArray> values;
    for (const auto& [id, op] : dag::CreationOrder(large).operations) {
      if (op->data() != nullptr) values.emplace(op->name(), *op->data());
    }
    for (const auto& [id, op] : dag::CreationOrder(small).operations) {
      const auto known = op->data() != nullptr ? values.find(op->name()) : values.end();
      if (known != values.end() && !dag::begins_with(known->second, *op->data()))
        leave_unfolded(op->name());
    }
  }

  /// A value, or those that were computed at import from which other nodes take its elements.
  void leave_unfolded(const std::string& name) {
    if (notes_.folded.contains(name)) {
      notes_.unfolded.insert(name);
      return;
    }
    for (const Node& node : model_.graph.nodes) {
      if (std::find(node.outputs.begin(), node.outputs.end(), name) == node.outputs.end()) continue;
      for (const std::string& input : node.inputs) leave_unfolded(input);
    }
  }

  // The first import has the largest sizes.
  Declared at_sizes() {
    Declared here;
    notes_.names.clear();
    try {
      here.largest = import_constant(model_, options_, where_, &notes_);
      here.names = notes_.names;
    } catch (const Error& e) {
      std::string sizes;
      for (const auto& [name, range] : ranges_)
        sizes +=
            (sizes.empty() ? "" : ", ") + name + " = " + std::to_string(options_.dims.at(name));
      const std::string limit = e.kind == ErrorKind::User ? largest_that_works() : "";
      throw Error(e.kind, "for example at " + sizes + ": " + e.message, e.where,
                  limit.empty() ? e.help : limit);
    }
    here.outputs = here.largest.outputs;
    const std::vector<Tensor> computed = computed_for(here.largest.updates.repeats);
    here.outputs.insert(here.outputs.end(), computed.begin(), computed.end());
    for (const auto* list : {&here.largest.inputs, &here.largest.constants}) {
      for (const Tensor& t : *list) here.tensors.emplace_back(t, t);
    }
    for (const Repeat& r : here.largest.updates.repeats) {
      for (const Tensor& t : r.bound()) here.tensors.emplace_back(t, t);
    }
    return here;
  }

  bool works_with(const std::string& name, int64_t size) const {
    OnnxOptions options = options_;
    options.dims[name] = size;
    try {
      (void)import_constant(model_, options, where_, nullptr);
      return true;
    } catch (const Error& e) {
      if (e.kind != ErrorKind::User) throw;
      return false;
    }
  }

  // Help for an import that fails: the largest size of a range with which it succeeds, where one
  // range is the cause. The sizes of the others stay.
  std::string largest_that_works() const {
    for (const auto& [name, range] : ranges_) {
      const int64_t unit = range.multiple();
      int64_t works = range.lo() / unit, fails = options_.dims.at(name) / unit;
      if (fails <= works || !works_with(name, works * unit)) continue;
      while (fails - works > 1) {
        const int64_t middle = works + (fails - works) / 2;
        (works_with(name, middle * unit) ? works : fails) = middle;
      }
      const std::string most = std::to_string(works * unit);
      return "the largest " + name + " with which it can be imported is " + most + ": " + name +
             "=" + std::to_string(range.lo()) + ".." + most;
    }
    return {};
  }

  const Model& model_;
  OnnxOptions options_;
  Where where_;
  std::vector<std::pair<std::string, Dim>> ranges_;
  ImportNotes notes_;
};

}  // namespace

OnnxModel import_ranges(const Model& model, const OnnxOptions& options, Where where) {
  return RangeImporter(model, options, where).run();
}

}  // namespace heddle::onnx
