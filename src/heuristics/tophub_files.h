// What the files of targets say, read once for each target while the folders stay as they are.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "heddle/support/function_ref.h"
#include "heddle/target/target.h"
#include "support/log.h"

namespace heddle::learning {

/// A file for chips of this kind that have none of their own, such as "llvm-any.constants": the first
/// that exists. `ending` begins with a dot.
std::optional<std::string> file_of_any_chip(const std::string& kind, const std::string& ending);

template <class T>
class TophubFiles {
 public:
  /// What `read` says of the target; null where that is nothing. Its errors are logged, and count as
  /// nothing.
  std::shared_ptr<const T> find(const Target& target,
                                FunctionRef<std::optional<T>(const Target&)> read) {
    const std::lock_guard lock(mutex_);
    if (std::string now = tophub_version(); now != version_) {
      known_.clear();
      version_ = std::move(now);
    }
    const auto [at, is_new] = known_.try_emplace({target.kind, target.chip()});
    if (is_new) at->second = loaded(target, read);
    return at->second;
  }

 private:
  static std::shared_ptr<const T> loaded(const Target& target,
                                         FunctionRef<std::optional<T>(const Target&)> read) {
    try {
      std::optional<T> found = read(target);
      return found ? std::make_shared<const T>(std::move(*found)) : nullptr;
    } catch (const Error& e) {
      HEDDLE_LOG_AT("heuristics", 1, e.message);
      return nullptr;
    }
  }

  std::mutex mutex_;
  std::string version_;  ///< of tophub, in which the files were looked up
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const T>>
      known_;  ///< keyed by kind and chip; null where there are none
};

}  // namespace heddle::learning
