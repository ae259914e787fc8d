// Compiled nests of this process. The least recently used ones are removed first.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "codegen/llvm/jit/machine.h"
#include "ir/canonical.h"

namespace heddle::codegen {

/// A nest compiled for a machine.
struct CompiledNest {
  std::string symbol;
  std::shared_ptr<void> code;  ///< keeps the symbol's code loaded
};

class CodeCache {
 public:
  /// The limit of the code that is kept for reuse, in bytes. Code that kernels hold does not count.
  explicit CodeCache(std::size_t capacity_bytes) : capacity_(capacity_bytes) {}

  std::optional<CompiledNest> find(const CanonicalKey& key);
  void insert(const CanonicalKey& key, CompiledNest nest, std::size_t bytes);
  void clear();

 private:
  struct Entry {
    CanonicalKey key;
    CompiledNest nest;
    std::size_t bytes;
  };
  std::mutex mutex_;
  std::size_t capacity_, bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::map<CanonicalKey, std::list<Entry>::iterator> by_key_;
};

/// The key of `nest` on `machine`.
CanonicalKey code_key(const CanonicalKey& nest, const Machine& machine, int opt_level);

}  // namespace heddle::codegen
