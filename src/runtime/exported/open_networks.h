// The networks that an exported library has open.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "heddle/support/error.h"

namespace heddle {

/// Keeps a network while it is open or a call runs it. A handle that is no open network is found
/// out: a null pointer, a network of another library, or one that was closed, unless another one
/// lies at its address by now.
template <class Network>
class OpenNetworks {
 public:
  Network* add(std::shared_ptr<Network> network) {
    const std::unique_lock lock(mutex_);
    Network* handle = network.get();
    networks_[handle] = std::move(network);
    return handle;
  }
  /// Throws a Runtime error where the handle is no open network.
  std::shared_ptr<Network> find(const Network* handle) const {
    if (handle == nullptr) throw_runtime_error("the network is a null pointer");
    const std::shared_lock lock(mutex_);
    const auto at = networks_.find(handle);
    if (at == networks_.end())
      throw_runtime_error("the handle is no network that this library has open");
    return at->second;
  }
  /// A handle that is no open network is left alone.
  void close(const Network* handle) noexcept {
    std::shared_ptr<Network> last;  // it ends after the lock
    const std::unique_lock lock(mutex_);
    const auto at = networks_.find(handle);
    if (at == networks_.end()) return;
    last.swap(at->second);
    networks_.erase(at);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const Network*, std::shared_ptr<Network>> networks_;
};

}  // namespace heddle
