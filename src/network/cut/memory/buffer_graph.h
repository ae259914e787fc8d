// The buffers between the nodes of a network: which node reads and writes each, and how much of them
// lives at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "heddle/network/network.h"
#include "network/memory_plan.h"

namespace heddle::network {

class BufferGraph {
 public:
  /// Tensors that are `elsewhere` (arguments, constants, states) have no buffer. Those that are
  /// `inside` others share theirs.
  BufferGraph(const std::vector<TensorPlace>& inside, std::function<bool(const Tensor&)> elsewhere);

  /// Adds a node, behind those that write what it reads.
  void add_node(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);

  /// The buffer of `t`, which is written and has one, is read at the end of a call.
  void read_at_end(const Tensor& t) { at_end_.insert(find(t)); }
  bool is_read_at_end(int buffer) const { return at_end_.count(buffer) != 0; }

  /// The place of `t`, which is its own or in a larger tensor.
  TensorPlace place_of(const Tensor& t) const;
  /// The buffer in which `t` lies, or -1.
  int find(const Tensor& t) const;

  size_t nodes() const { return reads_.size(); }
  size_t buffers() const { return bytes_.size(); }
  const std::vector<int>& reads(size_t node) const { return reads_[node]; }
  const std::vector<int>& writes(size_t node) const { return writes_[node]; }
  int64_t bytes(int buffer) const { return bytes_[static_cast<size_t>(buffer)]; }

  /// The order in which the nodes were added.
  std::vector<size_t> order() const;
  /// Of each buffer, if the nodes run in this order.
  std::vector<BufferLifetime> lifetimes(const std::vector<size_t>& order) const;
  std::vector<BufferLifetime> lifetimes() const { return lifetimes(order()); }

 private:
  using Key = std::pair<const Operation*, int>;  ///< operation and output
  std::map<Key, TensorPlace> inside_;
  std::function<bool(const Tensor&)> elsewhere_;
  std::vector<std::vector<int>> reads_, writes_;
  std::vector<int64_t> bytes_;
  std::map<Key, int> known_;
  std::set<int> at_end_;
};

/// The bytes that live during each of `steps` steps.
std::vector<int64_t> live_bytes(const std::vector<BufferLifetime>& lifetimes, size_t steps);

}  // namespace heddle::network
