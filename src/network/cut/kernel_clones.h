// The nodes of a network that share a kernel together with its prepared weights.
#pragma once

#include <map>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/runtime/kernel.h"
#include "runtime/kernel/kernel_impl.h"

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

  Kernel of(const NetworkNode& node) {
    const auto [it, added] = clones_.try_emplace(constants_of(node));
    if (added) it->second = kernel_.clone();
    return it->second;
  }

  /// The bytes that the kernel needs besides its arguments while it runs, on a GPU.
  int64_t scratch_bytes() const {
    const auto& executable = runtime_of(kernel_).cuda;
    return executable ? cuda::scratch_bytes(executable->program()) : 0;
  }

 private:
  Kernel kernel_;
  std::map<std::vector<const Operation*>, Kernel>
      clones_;  ///< clones by the weights that they read
};

}  // namespace heddle::network
