#include "dag/rewrites/rebuilder.h"

#include <algorithm>

#include "dag/map_loads.h"
#include "heddle/support/error.h"

namespace heddle::dag {

void Rebuilder::replace(const Tensor& from, const Tensor& to) {
  replaced_[from.op()].resize(static_cast<std::size_t>(from.op()->num_outputs()));
  replaced_[from.op()][static_cast<std::size_t>(from.index())] = to;
}

Tensor Rebuilder::rebuild(const Tensor& t) {
  if (const auto it = replaced_.find(t.op()); it != replaced_.end()) {
    // The replacement may read other stages that are replaced or rebuilt, but not itself.
    HEDDLE_ICHECK(open_.insert(t.op()).second,
                  "the rewrite of '" + t.name() + "' reads what it is to replace");
    Tensor out = rebuild(it->second[static_cast<std::size_t>(t.index())]);
    open_.erase(t.op());
    return out;
  }
  if (t.op()->is_placeholder()) return t;
  return Tensor(rebuild(t.op_ref()), t.index());
}

std::vector<Tensor> Rebuilder::rebuild(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(rebuild(t));
  return out;
}

// Chains of operations may be longer than the stack of the thread, so that what `last` reads is
// rebuilt first, from the farthest operation on.
Ref<const Operation> Rebuilder::rebuild(const Ref<const Operation>& last) {
  if (const auto it = done_.find(last.get()); it != done_.end()) return it->second;
  std::unordered_set<const Operation*> entered{last.get()};
  // With the inputs that are still to be entered, the first one last.
  std::vector<std::pair<Ref<const Operation>, std::vector<Tensor>>> open;
  const auto enter = [&](const Ref<const Operation>& op) {
    std::vector<Tensor> inputs = op->inputs();
    std::reverse(inputs.begin(), inputs.end());
    open.emplace_back(op, std::move(inputs));
  };
  enter(last);
  while (open.size() > 1 || !open.back().second.empty()) {
    if (open.back().second.empty()) {
      (void)rebuild_one(open.back().first);
      open.pop_back();
      continue;
    }
    Tensor in = std::move(open.back().second.back());
    open.back().second.pop_back();
    if (const auto it = replaced_.find(in.op()); it != replaced_.end())
      in = it->second[static_cast<std::size_t>(in.index())];
    if (in.op()->is_placeholder() || done_.count(in.op()) > 0 || replaced_.count(in.op()) > 0 ||
        !entered.insert(in.op()).second)
      continue;
    enter(in.op_ref());
  }
  return rebuild_one(last);
}

Ref<const Operation> Rebuilder::rebuild_one(const Ref<const Operation>& op) {
  if (const auto it = done_.find(op.get()); it != done_.end()) return it->second;
  // The map is keyed by the address of `op`, so `op` is kept alive.
  kept_.push_back(op);
  bool changed = false;
  std::vector<std::pair<Buffer, Tensor>> reads;
  for (const Tensor& in : op->inputs()) {
    reads.emplace_back(in.buffer(), rebuild(in));
    changed |= !reads.back().second.same_as(in);
  }
  Ref<const Operation> out = op;
  if (changed) {
    // The axes are reused: any graph contains at most one of the two operations.
    std::vector<Expr> bodies = map_loads(op->bodies(), [&](const Load& load) {
      const auto read = std::find_if(reads.begin(), reads.end(),
                                     [&](const auto& r) { return r.first == load.buffer; });
      return make_load(read == reads.end() ? load.buffer : read->second.buffer(), load.indices);
    });
    out =
        Operation::make_compute(op->name(), op->axes(), std::move(bodies), op->tag(), op->where());
  }
  return done_[op.get()] = out;
}

}  // namespace heddle::dag
