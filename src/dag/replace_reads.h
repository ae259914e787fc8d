// A graph whose stages read other tensors in the place of some.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

class ReplacedReads {
 public:
  /// What is read in the place of an element, by its indices.
  using Read = std::function<Expr(const std::vector<Expr>& indices)>;

  explicit ReplacedReads(const ComputeDag& dag);
  /// Readers of the results of `op`, which has one, read `by` instead. It may name what now() gives
  /// for the producers of `op`.
  void replace(const Operation* op, Read by) { by_[op] = std::move(by); }
  void replace(const Operation* op, const Tensor& by);
  /// Declares each stage again of which something that it reads has changed.
  void run();
  /// The counterpart of a tensor of the graph. While run() goes on: of one before the stage at hand.
  Tensor now(const Tensor& t) const;

 private:
  Expr read(const Load& load, bool* changed) const;

  const ComputeDag& dag_;
  std::vector<Ref<const Operation>> now_;
  std::unordered_map<const Operation*, Read> by_;
};

}  // namespace heddle::dag
