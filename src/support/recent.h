// A short list of what was used last.
#pragma once

#include <cstddef>
#include <list>
#include <utility>

namespace heddle {

/// The entries that were found or added last, at most `most`.
template <class T>
class Recent {
 public:
  explicit Recent(std::size_t most) : most_(most) {}

  /// The entry for which `is` holds, which is now the most recent; null where there is none.
  template <class Is>
  T* find(const Is& is) {
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (!is(*at)) continue;
      entries_.splice(entries_.begin(), entries_, at);
      return &*at;
    }
    return nullptr;
  }

  T& add(T entry) {
    if (!entries_.empty() && entries_.size() == most_) entries_.pop_back();
    return entries_.emplace_front(std::move(entry));
  }

  void clear() { entries_.clear(); }

 private:
  std::size_t most_;
  std::list<T> entries_;  ///< the most recent first
};

}  // namespace heddle
