// A short list of what was used last.
#pragma once

#include <cstddef>
#include <iterator>
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
    drop_for_another();
    return entries_.emplace_front(std::move(entry));
  }

  /// Takes out what the next add() would destroy: for a caller that must not destroy it under a lock.
  std::list<T> drop_for_another() {
    std::list<T> dropped;
    if (!entries_.empty() && entries_.size() == most_)
      dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
    return dropped;
  }
  /// The same of all entries.
  std::list<T> drop_all() { return std::exchange(entries_, {}); }

  void clear() { entries_.clear(); }

 private:
  std::size_t most_;
  std::list<T> entries_;  ///< the most recent first
};

}  // namespace heddle
