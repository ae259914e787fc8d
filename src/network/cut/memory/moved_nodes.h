// The bytes that live between the nodes of a network while nodes move to the front of those that are
// left: whether one may run earlier than its place in the order says.
#pragma once

#include <cstdint>
#include <vector>

#include "network/cut/memory/buffer_graph.h"

namespace heddle::network {

class MovedNodes {
 public:
  /// Nodes are in the order in which they were added to `graph`, whose buffers may take `most` bytes at
  /// any time, or what they take there anyway.
  MovedNodes(const BufferGraph& graph, int64_t most);

  /// Whether `node` may run where node `at` does, which no node that is left precedes.
  bool may_move(size_t node, size_t at) const;
  /// Node `node` runs where `at` does: itself, or one before it.
  void run(size_t node, size_t at);

 private:
  /// The buffers of a node, each once.
  std::vector<int> buffers_of(size_t node) const;
  /// Adds what `node` changes in the bytes of each place from `at` to its own, which is the last.
  std::vector<int64_t> changes(size_t node, size_t at) const;
  /// The last place where the buffer is needed once `node` ran where `at` does.
  int last_without(int buffer, size_t node, size_t at) const;

  const BufferGraph& graph_;
  int64_t most_;
  std::vector<std::vector<size_t>> users_;  ///< of each buffer, those that are left
  std::vector<BufferLifetime> lifetimes_;   ///< over places in the order
  std::vector<int64_t> live_;               ///< of each place
};

}  // namespace heddle::network
