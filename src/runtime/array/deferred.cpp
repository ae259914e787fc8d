#include "runtime/array/deferred.h"

#include <algorithm>

namespace heddle {
namespace internal {

void Deferred::keep() {
  if (kept_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  if (!present_) read();
  present_ = true;
  kept_.store(true, std::memory_order_release);
}

void Deferred::expose() {
  keep();
  exposed_.store(true);
}

void Deferred::pin() {
  const std::lock_guard lock(mutex_);
  ++pins_;
  if (!present_) read();
  present_ = true;
}

void Deferred::unpin() {
  const std::lock_guard lock(mutex_);
  if (--pins_ > 0 || kept_.load()) return;
  drop();
  present_ = false;
}

Deferred* deferred_of(const NDArray& array) {
  return array.deferred_ ? static_cast<Deferred*>(array.storage_.get()) : nullptr;
}

NDArray deferred_array(Ref<Deferred> storage, Extents shape, DataType dtype) {
  void* block = storage->block();
  return {std::move(storage), block, std::move(shape), dtype};
}

Pinned::Pinned(std::span<const NDArray> arrays) : arrays_(arrays) {
  for (const NDArray& array : arrays_) {
    if (Deferred* deferred = deferred_of(array)) deferred->pin();
  }
}

Pinned::~Pinned() {
  for (const NDArray& array : arrays_) {
    if (Deferred* deferred = deferred_of(array)) deferred->unpin();
  }
}

std::string identity_of(const NDArray& array) {
  const Deferred* deferred = deferred_of(array);
  const std::string file = deferred != nullptr ? deferred->identity() : "";
  if (file.empty()) return {};
  const auto begin =
      static_cast<const char*>(array.address()) - static_cast<const char*>(deferred->block());
  return file + "+" + std::to_string(begin) + ":" + std::to_string(array.bytes());
}

void* kept(const NDArray& array) {
  if (Deferred* deferred = deferred_of(array)) deferred->keep();
  return array.address();
}

}  // namespace internal

void NDArray::load() const { internal::deferred_of(*this)->expose(); }

}  // namespace heddle
