// The backward pass over the stages of a declaration.
#pragma once

#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autodiff/gather.h"
#include "heddle/autodiff/gradient.h"
#include "heddle/dsl/tensor.h"

namespace heddle::autodiff {

/// Whether both have one type and one shape.
bool same_form(const Tensor& a, const Tensor& b);
/// The type and shape, for messages.
std::string form_text(const Tensor& t);

class Backward {
 public:
  Backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& wrt,
           const GradientOptions& options, const Where& where);

  void add_head(const Tensor& output, const Tensor& head);
  /// Whether an output depends on `t` through floats.
  bool reaches(const Tensor& t) const;
  /// Passes what the outputs receive on to all stages that lie on a way to a tensor of `wrt`.
  void run();
  /// What `t`, one of `wrt`, received: zeros where it is nothing.
  Tensor result(const Tensor& t);

 private:
  using Key = std::pair<const Operation*, int>;
  static Key key_of(const Tensor& t) { return {t.op(), t.index()}; }

  bool leads_to_wrt(const Tensor& t) const;
  bool leads_to_wrt(const Load& load) const { return leads_to_wrt(tensor_of(load.buffer)); }
  /// The custom gradient of an output of `op`; null where there is none.
  const CustomGradient* custom(const Operation& op, int output) const;
  bool on_way(const Operation& op) const;
  /// Calls `fn` on each tensor on a way to `wrt` that `op` reads.
  void for_each_way(const Operation& op, FunctionRef<void(const Tensor&)> fn) const;
  void order_stages(const std::vector<Tensor>& outputs);
  void find_ways(const std::vector<Tensor>& outputs);
  /// Takes maxima whose derivative is 0 from the ways.
  void leave_out_cancelled(const std::vector<Tensor>& outputs);
  void propagate(const Operation& op);
  void propagate(const Operation& op, int output, const Tensor& given);
  void apply(const CustomGradient& c, const Tensor& given);
  /// The sum of what `t` received; a null tensor for nothing.
  Tensor total(const Tensor& t);
  /// What the output of `op` receives, at its axes. A stage that only moves reads through a sum of
  /// this pass to what that reads, so that a slice of phases is no stage of its own.
  Expr head_of(const Operation& op, const Tensor& given) const;
  /// The elements of `t` whose gradient is used, an interval a dimension: of padding those inside.
  std::vector<Interval> used_region(const Tensor& t) const;
  /// The reduction that `body` reads shifted, strided or transposed, and that nothing else reads,
  /// declared at those places alone; null where `body` is something else.
  Expr moved_into(const Expr& body) const;

  const GradientOptions& options_;
  Where where_;
  std::vector<Ref<const Operation>> stages_;     ///< producers first
  std::unordered_set<const Operation*> on_way_;  ///< a tensor of `wrt` is or precedes it
  std::map<Key, bool> wrt_;                      ///< whether an output depends on it
  std::map<Key, std::vector<Summand>> received_;
  std::map<Key, Tensor> totals_;
  std::unordered_set<const Operation*> composed_;   ///< sums of what a tensor received
  std::unordered_set<const Operation*> sums_;       ///< reductions that this pass declared
  std::unordered_set<const Operation*> read_once_;  ///< those of them with a single reader
};

}  // namespace heddle::autodiff
