// The nodes of a network that share a kernel together with its prepared weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/runtime/kernel.h"

namespace heddle::network {

/// The constants that a node reads, in the order of its task.
inline std::vector<const Operation*> constants_of(const NetworkNode& node) {
  std::vector<const Operation*> constants;
  for (const Tensor& t : node.inputs) {
    if (t.op()->is_constant()) constants.push_back(t.op());
  }
  return constants;
}

/// The kernels of the nodes of one task. Each node has a clone, because it prepares weights of its
/// own. Nodes that read the same weights, such as the steps of a recurrent layer, share one clone,
/// so that their packed weights are in memory and in the caches once.
class KernelClones {
 public:
  explicit KernelClones(Kernel kernel) : kernel_(std::move(kernel)) {}

  Kernel of(const NetworkNode& node) { return with(node, {}).kernel; }

  struct Clone {
    Kernel kernel;
    int64_t new_bytes = 0;  ///< of packed weights that no other kernel has
  };
  /// The same. A new clone takes over the packed weights of one of `others`, which are kernels of
  /// this node, where it packs them in the same way.
  Clone with(const NetworkNode& node, const std::vector<Kernel>& others) {
    const auto [it, added] = clones_.try_emplace(constants_of(node));
    if (!added) return {it->second, 0};
    it->second = kernel_.clone();
    const bool shared = std::any_of(others.begin(), others.end(), [&](const Kernel& other) {
      return it->second.share_prepared(other);
    });
    return {it->second, shared ? 0 : it->second.persistent_bytes()};
  }

 private:
  Kernel kernel_;
  std::map<std::vector<const Operation*>, Kernel>
      clones_;  ///< clones by the weights that they read
};

}  // namespace heddle::network
