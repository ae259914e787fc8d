#include "network/cut/memory/buffer_graph.h"

#include <algorithm>
#include <numeric>

#include "network/cut/step_plan.h"

namespace heddle::network {
namespace {

int64_t bytes_of(const Tensor& t) {
  int64_t bytes = t.dtype().bytes();
  for (const int64_t e : largest_extents(t)) bytes *= e;
  return bytes;
}

}  // namespace

BufferGraph::BufferGraph(const std::vector<TensorPlace>& inside,
                         std::function<bool(const Tensor&)> elsewhere)
    : elsewhere_(std::move(elsewhere)) {
  for (const TensorPlace& p : inside) inside_.emplace(Key{p.tensor.op(), p.tensor.index()}, p);
}

TensorPlace BufferGraph::place_of(const Tensor& t) const {
  const auto it = inside_.find({t.op(), t.index()});
  return it == inside_.end() ? TensorPlace{t, t, 0} : it->second;
}

int BufferGraph::find(const Tensor& t) const {
  const Tensor whole = place_of(t).whole;
  const auto it = known_.find({whole.op(), whole.index()});
  return it == known_.end() ? -1 : it->second;
}

void BufferGraph::add_node(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  std::vector<int>& reads = reads_.emplace_back();
  for (const Tensor& t : inputs) {
    if (const int b = find(t); b >= 0) reads.push_back(b);
  }
  std::vector<int>& writes = writes_.emplace_back();
  for (const Tensor& t : outputs) {
    if (elsewhere_(t)) continue;
    const Tensor whole = place_of(t).whole;
    const auto [it, is_new] =
        known_.try_emplace({whole.op(), whole.index()}, static_cast<int>(bytes_.size()));
    if (is_new) bytes_.push_back(bytes_of(whole));
    writes.push_back(it->second);
  }
}

std::vector<BufferLifetime> BufferGraph::lifetimes(const std::vector<size_t>& order) const {
  std::vector<BufferLifetime> all(bytes_.size());
  for (const int b : at_end_) all[b].last = static_cast<int>(order.size()) - 1;
  for (size_t s = order.size(); s-- > 0;) {
    const int step = static_cast<int>(s);
    for (const std::vector<int>* list : {&writes_[order[s]], &reads_[order[s]]}) {
      for (const int b : *list) all[b] = {bytes_[b], step, std::max(all[b].last, step)};
    }
  }
  return all;
}

std::vector<size_t> BufferGraph::order() const {
  std::vector<size_t> all(nodes());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

std::vector<int64_t> live_bytes(const std::vector<BufferLifetime>& lifetimes, size_t steps) {
  std::vector<int64_t> live(steps + 1);
  for (const BufferLifetime& b : lifetimes) {
    live[b.first] += b.bytes;
    live[b.last + 1] -= b.bytes;
  }
  for (size_t s = 1; s <= steps; ++s) live[s] += live[s - 1];
  live.pop_back();
  return live;
}

}  // namespace heddle::network
