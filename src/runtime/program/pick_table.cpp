#include "runtime/program/pick_table.h"

#include "heddle/support/error.h"

namespace heddle {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

uint64_t hash_of(std::span<const int64_t> sizes) {
  uint64_t h = sizes.size();
  for (const int64_t size : sizes) {
    h = (h ^ static_cast<uint64_t>(size)) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 32;
  }
  return h;
}

bool has(const std::atomic<int64_t>* slot, std::span<const int64_t> sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (slot[i + 1].load(kRelaxed) != sizes[i]) return false;
  }
  return true;
}

}  // namespace

std::atomic<int64_t>* PickTable::Slots::slot_of(std::span<const int64_t> sizes) const {
  const uint64_t first = hash_of(sizes);
  std::atomic<int64_t>* slot = nullptr;
  // Half of them are empty, but a reader may see what a writer has not finished.
  for (size_t i = 0; i < count; ++i) {
    slot = &words[(first + i) % count * width];
    if (slot[0].load(kRelaxed) == 0 || has(slot, sizes)) break;
  }
  return slot;
}

int PickTable::Slots::find(std::span<const int64_t> sizes) const {
  for (;;) {
    const uint64_t before = version.load(std::memory_order_acquire);
    const auto variant = static_cast<int>(slot_of(sizes)->load(kRelaxed)) - 1;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && version.load(kRelaxed) == before) return variant;
  }
}

void PickTable::Slots::set(std::span<const int64_t> sizes, int variant) {
  version.fetch_add(1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::atomic<int64_t>* slot = slot_of(sizes);
  if (slot[0].load(kRelaxed) == 0) ++filled;
  for (size_t i = 0; i < sizes.size(); ++i) slot[i + 1].store(sizes[i], kRelaxed);
  slot[0].store(variant + 1, kRelaxed);
  version.fetch_add(1, std::memory_order_release);
}

void PickTable::Slots::clear() {
  version.fetch_add(1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t i = 0; i < count * width; ++i) words[i].store(0, kRelaxed);
  filled = 0;
  version.fetch_add(1, std::memory_order_release);
}

PickTable::Slots& PickTable::with_room(size_t numbers) {
  Slots* last = all_.empty() ? nullptr : all_.back().get();
  HEDDLE_ICHECK(!last || last->width == numbers + 1, "all calls have the same sizes");
  if (last && 2 * last->filled < last->count) return *last;
  if (last && last->count == kMost) {
    last->clear();
    return *last;
  }
  auto made = std::make_unique<Slots>(last ? 2 * last->count : kFewest, numbers);
  std::vector<int64_t> sizes(numbers);
  for (size_t s = 0; last && s < last->count; ++s) {
    const std::atomic<int64_t>* slot = &last->words[s * last->width];
    if (slot[0].load(kRelaxed) == 0) continue;
    for (size_t i = 0; i < numbers; ++i) sizes[i] = slot[i + 1].load(kRelaxed);
    made->set(sizes, static_cast<int>(slot[0].load(kRelaxed)) - 1);
  }
  return *all_.emplace_back(std::move(made));
}

void PickTable::pick(std::span<const int64_t> sizes, int variant) {
  if (sizes.empty()) return single_.store(variant, std::memory_order_release);
  const std::lock_guard lock(writing_);
  Slots& slots = with_room(sizes.size());
  slots.set(sizes, variant);
  open_.store(&slots, std::memory_order_release);
}

void PickTable::clear() {
  const std::lock_guard lock(writing_);
  single_.store(-1, std::memory_order_release);
  if (!all_.empty()) all_.back()->clear();
}

}  // namespace heddle
