#include "codegen/llvm/jit/object_cache.h"

#include <algorithm>

#include "codegen/llvm/jit/code_cache.h"
#include "heddle/codegen/llvm.h"
#include "ir/canonical.h"
#include "llvm/Config/llvm-config.h"
#include "support/files/build_id.h"
#include "support/hashing/hash.h"
#include "support/hashing/hex.h"

namespace heddle {
namespace codegen {
namespace {

constexpr std::uintmax_t kMegabytes = 1024;

CanonicalKey combined(const CanonicalKey& a, uint64_t b) {
  return {hash_combine(a.high, b), hash_combine(a.low, mix64(b))};
}

}  // namespace

std::string object_key(const std::vector<LoweredFunction>& functions, const Target& target,
                       int opt_level) {
  CanonicalKey key{hash_string(build_id()), hash_string(LLVM_VERSION_STRING)};
  for (const LoweredFunction& f : functions) {
    const CanonicalForm form = canonical_form(f.body);
    if (!form.closed) return {};  // the form does not describe all of the body
    key = combined(combined(key, form.key.high), form.key.low);
    // The key says which argument each buffer and each size of the body is.
    key = combined(combined(key, f.args.size()), form.buffers.size());
    for (const Buffer& b : form.buffers) {
      const auto at = std::find(f.args.begin(), f.args.end(), b);
      key = combined(key, static_cast<uint64_t>(at - f.args.begin()));
    }
    key = combined(combined(key, f.sizes.size()), form.sizes.size());
    for (const Var& size : form.sizes) {
      const auto at = std::find_if(f.sizes.begin(), f.sizes.end(),
                                   [&](const Var& own) { return own.same_as(size); });
      key = combined(key, static_cast<uint64_t>(at - f.sizes.begin()));
    }
  }
  key = code_key(key, describe_machine(target, /*for_jit=*/true), opt_level);
  return to_hex(key.high) + to_hex(key.low);
}

}  // namespace codegen

DiskCache disk_code_cache() {
  return {cache_folder("code"), ".o", cache_limit("HEDDLE_CACHE_MB", codegen::kMegabytes)};
}

}  // namespace heddle
