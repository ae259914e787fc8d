#include "dag/take_row.h"

#include <algorithm>
#include <optional>
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

  Tensor take(const Tensor& t, const Row& row) const {
    const Operation& op = *t.op();
    std::vector<Axis> axes = op.axes();
    const Var gone = axes[row.axis].var();
    axes.erase(axes.begin() + static_cast<long>(row.axis));
    std::vector<std::pair<Tensor, Tensor>> taken;
    std::vector<Row> rows;
    for (const Tensor& producer : op.inputs()) {
      const std::optional<Row> of = row_read(op, producer, gone, row.at);
      if (!of) continue;
      taken.emplace_back(producer, take(producer, *of));
      rows.push_back(*of);
    }
    std::vector<Expr> bodies = map_loads(op.bodies(), [&](const Load& load) -> Expr {
      std::vector<Expr> indices(load.indices.begin(), load.indices.end());
      for (size_t i = 0; i < taken.size(); ++i) {
        if (!taken[i].first.same_as(tensor_of(load.buffer))) continue;
        indices.erase(indices.begin() + static_cast<long>(rows[i].axis));
        return make_load(taken[i].second.buffer(), indices);
      }
      return make_load(load.buffer, indices);
    });
    for (Expr& body : bodies) body = substitute(body, {{gone, row.at}});
    return Operation::make_compute(op.name(), axes, std::move(bodies), op.tag(), op.where())
        ->output(t.index());
  }

 private:
  /// The row of `producer` that `op` reads where its axis `gone` is `at`; none where it reads several, and
  /// where others read the producer as well.
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
        one = one && here.at.get() != nullptr && is_of_sizes(here.at) &&
              (!row || (row->axis == here.axis && equal(row->at, here.at)));
        row = here;
      }
      return make_load(load.buffer, indices);
    });
    return one ? row : std::nullopt;
  }

  const ComputeDag& dag_;
};

}  // namespace

Tensor take_row(const ComputeDag& dag, const Tensor& t, int axis, const Expr& at) {
  HEDDLE_ICHECK(!t.op()->is_placeholder() && axis >= 0 && axis < t.rank() && is_of_sizes(at),
                "a row of a result");
  return RowTaker(dag).take(t, {static_cast<size_t>(axis), at});
}

}  // namespace heddle::dag
