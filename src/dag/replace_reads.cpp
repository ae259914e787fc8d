#include "dag/replace_reads.h"

#include "dag/map_loads.h"

namespace heddle::dag {

ReplacedReads::ReplacedReads(const ComputeDag& dag) : dag_(dag) {
  for (int s = 0; s < dag.size(); ++s) now_.push_back(dag.stage_ref(s));
}

void ReplacedReads::replace(const Operation* op, const Tensor& by) {
  replace(op, [this, by](const std::vector<Expr>& at) { return now(by).at(at); });
}

Expr ReplacedReads::read(const Load& load, bool* changed) const {
  const Tensor t = tensor_of(load.buffer);
  const std::vector<Expr> indices(load.indices.begin(), load.indices.end());
  if (const auto it = by_.find(t.op()); it != by_.end()) {
    *changed = true;
    return it->second(indices);
  }
  const Tensor own = now(t);
  *changed |= !own.same_as(t);
  return make_load(own.buffer(), indices);
}

void ReplacedReads::run() {
  for (int s = 0; s < dag_.size(); ++s) {
    const Operation& op = dag_.stage(s);
    if (op.is_placeholder()) continue;
    bool changed = false;
    std::vector<Expr> bodies =
        map_loads(op.bodies(), [&](const Load& load) { return read(load, &changed); });
    if (!changed) continue;
    now_[static_cast<size_t>(s)] =
        Operation::make_compute(op.name(), op.axes(), std::move(bodies), op.tag(), op.where());
  }
}

Tensor ReplacedReads::now(const Tensor& t) const {
  const int s = dag_.index_of(t.op());
  return s < 0 ? t : now_[static_cast<size_t>(s)]->output(t.index());
}

}  // namespace heddle::dag
