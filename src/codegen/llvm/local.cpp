// Local buffers in registers. An accumulator tile whose accesses all have constant indices becomes
// SSA values, so the inner loop does not access memory for it.
#include <algorithm>

#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"

namespace heddle::codegen {

using llvm::Value;

namespace {

// The constant first element of an access that names consecutive elements (or one).
std::optional<Chunk> constant_access(const Expr& index) {
  if (index.dtype().is_scalar()) {
    const int64_t* at = as_int(index);
    return at ? std::optional<Chunk>({*at, 1}) : std::nullopt;
  }
  const std::optional<AffineLanes> lanes = as_affine_lanes(index);
  if (!lanes) return std::nullopt;
  const int64_t *base = as_int(lanes->base), *stride = as_int(lanes->stride);
  if (!base || !stride || (*stride != 0 && *stride != 1)) return std::nullopt;
  return Chunk{*base, *stride == 0 ? 1 : index.dtype().lanes};
}

// Collects the accesses of one buffer. Returns false where an index is not constant.
class AccessFinder {
 public:
  explicit AccessFinder(const Buffer& buffer) : buffer_(buffer) {}

  bool run(const Stmt& body) {
    visit(
        body,
        [&](const Stmt& s) {
          if (auto* store = s.as<Store>()) add(store->buffer, store->indices, true);
          if (auto* loop = s.as<For>(); loop && loop->loop == LoopKind::Parallel) {
            // A buffer that other threads access must be in memory.
            AccessFinder inside(buffer_);
            if (!inside.run(loop->body) || !inside.accesses.empty()) constant_ = false;
          }
        },
        [&](const Expr& e) {
          if (auto* load = e.as<Load>()) add(load->buffer, load->indices, false);
        });
    return constant_;
  }

  std::vector<Chunk> accesses;

 private:
  void add(const Buffer& buffer, const std::vector<Expr>& indices, bool store) {
    if (!(buffer == buffer_)) return;
    const std::optional<Chunk> access =
        indices.size() == 1 ? constant_access(indices[0]) : std::nullopt;
    if (!access || (store && access->lanes != indices[0].dtype().lanes)) {
      constant_ = false;
    } else {
      accesses.push_back(*access);
    }
  }

  const Buffer& buffer_;
  bool constant_ = true;
};

const Chunk& chunk_of(const std::vector<Chunk>& chunks, const Chunk& access) {
  auto it = std::upper_bound(chunks.begin(), chunks.end(), access.begin,
                             [](int64_t at, const Chunk& c) { return at < c.begin; });
  HEDDLE_ICHECK(it != chunks.begin() && (it - 1)->covers(access.begin, access.lanes),
                "an access to a register buffer that was not planned");
  return *(it - 1);
}

}  // namespace

std::optional<std::vector<Chunk>> plan_chunks(const Buffer& buffer, const Stmt& body) {
  AccessFinder finder(buffer);
  if (!finder.run(body)) return std::nullopt;
  // Of accesses that begin at the same element the widest comes first, because the narrower ones
  // are parts of it.
  std::sort(finder.accesses.begin(), finder.accesses.end(), [](const Chunk& a, const Chunk& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.lanes > b.lanes;
  });
  std::vector<Chunk> chunks;
  for (const Chunk& access : finder.accesses) {
    if (!chunks.empty() && chunks.back().covers(access.begin, access.lanes)) continue;
    if (!chunks.empty() && access.begin < chunks.back().begin + chunks.back().lanes) {
      return std::nullopt;
    }
    chunks.push_back(access);
  }
  return chunks;
}

Value* Generator::load_chunk(const Storage& storage, DataType dtype, const Expr& index) {
  const std::optional<Chunk> access = constant_access(index);
  const Chunk& chunk = chunk_of(storage.chunks, *access);
  Value* value = b_.CreateLoad(chunk.slot->getAllocatedType(), chunk.slot);
  if (chunk.lanes != access->lanes) {
    value = ops_.lanes(value, static_cast<int>(access->begin - chunk.begin), access->lanes);
  }
  return access->lanes == dtype.lanes ? value : ops_.splat(value, padded_lanes(dtype));
}

void Generator::store_chunk(const Storage& storage, DataType dtype, const Expr& index,
                            Value* value) {
  const std::optional<Chunk> access = constant_access(index);
  const Chunk& chunk = chunk_of(storage.chunks, *access);
  if (chunk.lanes != dtype.lanes) {
    Value* whole = b_.CreateLoad(chunk.slot->getAllocatedType(), chunk.slot);
    value =
        ops_.insert_lanes(whole, value, static_cast<int>(access->begin - chunk.begin), dtype.lanes);
  }
  b_.CreateStore(value, chunk.slot);
}

}  // namespace heddle::codegen
