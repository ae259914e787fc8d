#include "network/cut/memory/moved_nodes.h"

#include <algorithm>

namespace heddle::network {

MovedNodes::MovedNodes(const BufferGraph& graph, int64_t most)
    : graph_(graph),
      most_(most),
      users_(graph.buffers()),
      lifetimes_(graph.lifetimes()),
      live_(live_bytes(lifetimes_, graph.nodes())) {
  for (size_t n = 0; n < graph.nodes(); ++n) {
    for (const int b : buffers_of(n)) users_[b].push_back(n);
  }
}

std::vector<int> MovedNodes::buffers_of(size_t node) const {
  std::vector<int> all = graph_.reads(node);
  all.insert(all.end(), graph_.writes(node).begin(), graph_.writes(node).end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

int MovedNodes::last_without(int buffer, size_t node, size_t at) const {
  size_t last = at;
  for (const size_t user : users_[buffer]) {
    if (user != node) last = std::max(last, user);
  }
  return static_cast<int>(last);
}

std::vector<int64_t> MovedNodes::changes(size_t node, size_t at) const {
  std::vector<int64_t> change(node - at + 1);
  const auto first = static_cast<int>(at);
  for (const int b : buffers_of(node)) {
    const BufferLifetime& now = lifetimes_[b];
    for (int s = first; s < now.first; ++s) change[s - first] += now.bytes;
    for (int s = last_without(b, node, at) + 1; s <= now.last; ++s) change[s - first] -= now.bytes;
  }
  return change;
}

bool MovedNodes::may_move(size_t node, size_t at) const {
  const std::vector<int64_t> change = changes(node, at);
  for (size_t s = 0; s < change.size(); ++s) {
    if (change[s] > 0 && live_[at + s] + change[s] > most_) return false;
  }
  return true;
}

void MovedNodes::run(size_t node, size_t at) {
  const std::vector<int64_t> change = changes(node, at);
  for (size_t s = 0; s < change.size(); ++s) live_[at + s] += change[s];
  for (const int b : buffers_of(node)) {
    lifetimes_[b].first = std::min(lifetimes_[b].first, static_cast<int>(at));
    lifetimes_[b].last = last_without(b, node, at);
    std::erase(users_[b], node);
  }
}

}  // namespace heddle::network
