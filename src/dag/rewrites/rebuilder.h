// Makes a graph again with some of its tensors replaced.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::dag {

/// Makes the operations that depend on a replaced tensor again, each once.
class Rebuilder {
 public:
  /// Replaces `from` by `to` from now on. All outputs of an operation must be replaced.
  void replace(const Tensor& from, const Tensor& to);
  /// `t`, computed from the replacements.
  Tensor rebuild(const Tensor& t);
  std::vector<Tensor> rebuild(const std::vector<Tensor>& tensors);

 private:
  Ref<const Operation> rebuild(const Ref<const Operation>& op);
  Ref<const Operation> rebuild_one(const Ref<const Operation>& op);

  std::unordered_map<const Operation*, std::vector<Tensor>> replaced_;
  std::unordered_map<const Operation*, Ref<const Operation>> done_;
  std::vector<Ref<const Operation>> kept_;
  std::unordered_set<const Operation*> open_;  ///< being replaced
};

}  // namespace heddle::dag
