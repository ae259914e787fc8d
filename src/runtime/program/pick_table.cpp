#include "runtime/program/pick_table.h"

#include <algorithm>

namespace heddle {
namespace {

uint64_t hash_of(std::span<const int64_t> sizes) {
  uint64_t h = sizes.size();
  for (const int64_t size : sizes) {
    h = (h ^ static_cast<uint64_t>(size)) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 32;
  }
  return h;
}

}  // namespace

int PickTable::find(std::atomic<const Entry*>* slots, std::span<const int64_t> sizes) {
  for (uint64_t at = hash_of(sizes);; ++at) {
    const Entry* entry = slots[at % kSlots].load(std::memory_order_acquire);
    if (entry == nullptr) return -1;
    if (std::ranges::equal(entry->sizes, sizes))
      return entry->variant.load(std::memory_order_acquire);
  }
}

PickTable::Entry& PickTable::entry_of(std::span<const int64_t> sizes) {
  const auto known = std::find_if(all_.begin(), all_.end(), [&](const auto& entry) {
    return std::ranges::equal(entry->sizes, sizes);
  });
  if (known != all_.end()) return **known;
  Entry& entry = *all_.emplace_back(std::make_unique<Entry>());
  entry.sizes.assign(sizes.begin(), sizes.end());
  return entry;
}

void PickTable::pick(std::span<const int64_t> sizes, int variant) {
  if (sizes.empty()) return single_.store(variant, std::memory_order_release);
  const std::lock_guard lock(writing_);
  Entry& entry = entry_of(sizes);
  entry.variant.store(variant, std::memory_order_release);
  if (!slots_) {
    slots_ = std::make_unique<std::atomic<const Entry*>[]>(kSlots);
    open_.store(slots_.get(), std::memory_order_release);
  }
  if (filled_ >= kMostEntries) {
    for (size_t i = 0; i < kSlots; ++i) slots_[i].store(nullptr, std::memory_order_release);
    filled_ = 0;
  }
  uint64_t at = hash_of(sizes);
  const Entry* there = nullptr;
  while ((there = slots_[at % kSlots].load(std::memory_order_relaxed)) != nullptr) {
    if (there == &entry) return;
    ++at;
  }
  ++filled_;
  slots_[at % kSlots].store(&entry, std::memory_order_release);
}

void PickTable::clear() {
  const std::lock_guard lock(writing_);
  single_.store(-1, std::memory_order_release);
  for (const auto& entry : all_) entry->variant.store(-1, std::memory_order_release);
}

}  // namespace heddle
