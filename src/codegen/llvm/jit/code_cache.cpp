#include "codegen/llvm/jit/code_cache.h"

#include "support/hashing/hash.h"

namespace heddle::codegen {

std::optional<CompiledNest> CodeCache::find(const CanonicalKey& key) {
  const std::lock_guard lock(mutex_);
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, at->second);
  return at->second->nest;
}

void CodeCache::insert(const CanonicalKey& key, CompiledNest nest, std::size_t bytes) {
  std::list<Entry> dropped;  // unloaded after the lock is given back
  const std::lock_guard lock(mutex_);
  if (bytes > capacity_ || by_key_.contains(key)) return;
  while (bytes_ + bytes > capacity_) {
    bytes_ -= entries_.back().bytes;
    by_key_.erase(entries_.back().key);
    dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
  }
  entries_.push_front({key, std::move(nest), bytes});
  by_key_[key] = entries_.begin();
  bytes_ += bytes;
}

void CodeCache::clear() {
  std::list<Entry> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(entries_);
  by_key_.clear();
  bytes_ = 0;
}

CanonicalKey code_key(const CanonicalKey& nest, const Machine& machine, int opt_level) {
  uint64_t seed = hash_combine(hash_string(machine.triple.str()), hash_string(machine.cpu));
  seed = hash_combine(seed, hash_string(machine.features));
  seed = hash_combine(
      seed, static_cast<uint64_t>(machine.vector_bytes) << 8 | static_cast<uint64_t>(opt_level));
  return {hash_combine(nest.high, seed), hash_combine(nest.low, mix64(seed))};
}

}  // namespace heddle::codegen
