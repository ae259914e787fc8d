#include "heddle/ir/loop_kind.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>

#include "heddle/support/error.h"

namespace heddle {
namespace {

struct NamedKind {
  LoopKind kind;
  const char* name;
};
// A row's place is the number of its kind.
constexpr NamedKind kKinds[] = {
    {LoopKind::Serial, "serial"},
    {LoopKind::Parallel, "parallel"},
    {LoopKind::Vectorized, "vectorized"},
    {LoopKind::Unrolled, "unrolled"},
    {LoopKind::BlockX, "blockIdx.x"},
    {LoopKind::BlockY, "blockIdx.y"},
    {LoopKind::BlockZ, "blockIdx.z"},
    {LoopKind::ThreadX, "threadIdx.x"},
    {LoopKind::ThreadY, "threadIdx.y"},
    {LoopKind::ThreadZ, "threadIdx.z"},
    {LoopKind::tensorized(), "tensorized"},
    {LoopKind::clusters(2), "clusters of 2"},
    {LoopKind::clusters(4), "clusters of 4"},
    {LoopKind::clusters(8), "clusters of 8"},
    {LoopKind::LastBlock, "last block"},
    {LoopKind::SoftwarePipelined, "software_pipelined"},
    {LoopKind::persistent(), "persistent blockIdx.x"},
    {LoopKind::PairX, "pair of blocks"},
    {LoopKind::persistent(true), "streaming blockIdx.x"},
    {LoopKind::persistent(false, true), "alternating blockIdx.x"},
    {LoopKind::persistent(true, true), "alternating streaming blockIdx.x"},
};

}  // namespace

InstructionName::InstructionName(const std::string& name) {
  static std::mutex mutex;
  static auto& names = *new std::set<std::string>();  // never destroyed: copies point into it
  if (name.empty()) return;
  const std::lock_guard lock(mutex);
  text_ = &*names.insert(name).first;
}

const std::string& InstructionName::text() const {
  static const std::string none;
  return text_ ? *text_ : none;
}

int64_t LoopKind::number() const {
  LoopKind plain = *this;
  plain.instruction = {};
  const auto* row = std::ranges::find(kKinds, plain, &NamedKind::kind);
  HEDDLE_ICHECK(row != std::end(kKinds), "there is no such kind of loop");
  return row - std::begin(kKinds);
}

std::optional<LoopKind> LoopKind::of_number(int64_t number) {
  if (number < 0 || number >= std::ssize(kKinds)) return std::nullopt;
  return kKinds[number].kind;
}

const char* to_string(LoopKind kind) { return kKinds[kind.number()].name; }

}  // namespace heddle
