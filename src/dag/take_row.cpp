#include "dag/take_row.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dag/map_loads.h"
#include "heddle/ir/simplify.h"

namespace heddle::dag {
namespace {

/// Whether `e` is made of sizes and numbers.
bool is_of_sizes(const Expr& e) {
  bool all = true;
  visit(e, [&](const Expr& x) {
    const VarNode* v = x.as<VarNode>();
    all = all && !x.as<Load>() && (v == nullptr || v->size);
  });
  return all;
}

bool names(const Expr& e, const Var& var) {
  bool found = false;
  visit(e, [&](const Expr& x) { found = found || x.as<VarNode>() == var.get(); });
  return found;
}

/// A row of a tensor.
struct Row {
  size_t axis = 0;
  Expr at;
};

class RowTaker {
 public:
  explicit RowTaker(const ComputeDag& dag) : dag_(dag) {}

  /// Chains are long, so that the stages are a list: each is behind the only one that reads it.
  Tensor take(const Tensor& t, const Row& row) {
    std::vector<Tensor> stages{t};
    rows_.emplace(t.op(), row);
    for (size_t i = 0; i < stages.size(); ++i) {
      const Operation& op = *stages[i].op();
      const Row of_op = rows_.at(&op);
      for (const Tensor& producer : op.inputs()) {
        std::optional<Row> of = row_read(op, producer, op.axes()[of_op.axis].var(), of_op.at);
        if (!of) continue;
        rows_.emplace(producer.op(), *std::move(of));
        stages.push_back(producer);
      }
    }
    for (; !stages.empty(); stages.pop_back()) declare(stages.back());
    return taken_.at(t.op());
  }

 private:
  /// Declares the row of a stage, of which those of its producers are declared.
  void declare(const Tensor& t) {
    const Operation& op = *t.op();
    const Row& row = rows_.at(&op);
    std::vector<Axis> axes = op.axes();
    const Var gone = axes[row.axis].var();
    axes.erase(axes.begin() + static_cast<long>(row.axis));
    std::vector<Expr> bodies = map_loads(op.bodies(), [&](const Load& load) -> Expr {
      std::vector<Expr> indices(load.indices.begin(), load.indices.end());
      const Operation* producer = tensor_of(load.buffer).op();
      const auto taken = taken_.find(producer);
      if (taken == taken_.end()) return make_load(load.buffer, indices);
      indices.erase(indices.begin() + static_cast<long>(rows_.at(producer).axis));
      return make_load(taken->second.buffer(), indices);
    });
    for (Expr& body : bodies) body = substitute(body, {{gone, row.at}});
    taken_[&op] = Operation::make_compute(op.name(), axes, std::move(bodies), op.tag(), op.where())
                      ->output(t.index());
  }

  /// The row of `producer` that `op` reads where its axis `gone` is `at`; none where it reads several,
  /// where others read the producer as well, and where the row may lie outside, which a condition of the read
  /// tells.
  std::optional<Row> row_read(const Operation& op, const Tensor& producer, const Var& gone,
                              const Expr& at) const {
    const int s = dag_.index_of(producer.op());
    if (s < 0 || producer.op()->is_placeholder() || producer.op()->num_outputs() != 1 ||
        dag_.info(s).is_output || dag_.info(s).consumers.size() != 1)
      return std::nullopt;
    std::optional<Row> row;
    bool one = true;
    (void)map_loads(op.bodies(), [&](const Load& load) -> Expr {
      const std::vector<Expr> indices(load.indices.begin(), load.indices.end());
      if (producer.same_as(tensor_of(load.buffer))) {
        const auto found = std::find_if(indices.begin(), indices.end(),
                                        [&](const Expr& e) { return names(e, gone); });
        const Row here{
            static_cast<size_t>(found - indices.begin()),
            found == indices.end() ? Expr() : simplify(substitute(*found, {{gone, at}}))};
        one = one && here.at.get() != nullptr && is_of_sizes(here.at) && prove(here.at >= 0, {}) &&
              prove(here.at < producer.shape()[here.axis], {}) &&
              (!row || (row->axis == here.axis && equal(row->at, here.at)));
        row = here;
      }
      return make_load(load.buffer, indices);
    });
    return one ? row : std::nullopt;
  }

  const ComputeDag& dag_;
  std::unordered_map<const Operation*, Row> rows_;
  std::unordered_map<const Operation*, Tensor> taken_;
};

}  // namespace

Tensor take_row(const ComputeDag& dag, const Tensor& t, int axis, const Expr& at) {
  HEDDLE_ICHECK(!t.op()->is_placeholder() && axis >= 0 && axis < t.rank() && is_of_sizes(at),
                "a row of a result");
  return RowTaker(dag).take(t, {static_cast<size_t>(axis), at});
}

}  // namespace heddle::dag
