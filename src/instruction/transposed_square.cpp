#include "instruction/transposed_square.h"

#include <bit>

#include "ir/affine_lanes.h"
#include "ir/linear.h"

namespace heddle::instructions {
namespace {

constexpr int kBlock = 4;  // elements of 32 bits in 128

/// The lanes of a load, where they lie apart by a constant. Elements up to four apart are handled
/// as whole vectors and shuffles.
std::optional<AffineLanes> columns(const Load& l) {
  auto lanes = as_affine_lanes(l.indices[0]);
  const int64_t* stride = lanes ? as_int(lanes->stride) : nullptr;
  if (!stride || *stride <= kBlock) return std::nullopt;
  return lanes;
}

class Finder {
 public:
  Finder(const std::vector<Stmt>& stmts, size_t from, const SquareRules& rules, std::string* why)
      : stmts_(stmts), rules_(rules), why_(*why) {
    out_.end = from;
  }

  std::optional<TransposedSquare> run() {
    take(1);
    const auto* load = out_.stores.empty() ? nullptr : out_.stores[0]->value.as<Load>();
    if (!load || load->indices.size() != 1 || has_load(load->indices[0]))
      return fail("it stores no vector that it reads");
    const DataType dtype = load->dtype;
    if (dtype.lanes < kBlock || !std::has_single_bit(static_cast<unsigned>(dtype.lanes)) ||
        dtype.bits != 32 || dtype.bytes() > rules_.vector_bytes)
      return fail("vectors of " + to_string(dtype) + " are no rows of a square");
    take(static_cast<size_t>(dtype.lanes));
    if (out_.stores.size() < static_cast<size_t>(dtype.lanes))
      return fail("there are " + std::to_string(out_.stores.size()) + " of " +
                  std::to_string(dtype.lanes) + " stores");
    const std::optional<AffineLanes> first = columns(*load);
    if (!first) return fail("its lanes are not apart by a constant");
    if (!rules_.in_memory(load->buffer))
      return fail("'" + load->buffer->name + "' is in registers");
    for (int i = 0; i < dtype.lanes; ++i) {
      if (!is_column(*out_.stores[static_cast<size_t>(i)], *load, *first, i))
        return fail("store " + std::to_string(i) + " is not of the next column");
    }
    out_.load = load;
    out_.base = first->base;
    out_.stride = *as_int(first->stride);
    return std::move(out_);
  }

 private:
  std::nullopt_t fail(const std::string& why) {
    why_ = why;
    return std::nullopt;
  }

  // Takes stores until there are `n`, and a prefetch between them.
  void take(size_t n) {
    for (; out_.end < stmts_.size() && out_.stores.size() < n; ++out_.end) {
      if (const auto* store = stmts_[out_.end].as<Store>()) {
        out_.stores.push_back(store);
      } else if (const auto* prefetch = stmts_[out_.end].as<Prefetch>()) {
        if (!out_.ahead) out_.ahead = prefetch;
      } else {
        return;
      }
    }
  }

  bool is_column(const Store& s, const Load& load, const AffineLanes& first, int i) const {
    const auto* l = s.value.as<Load>();
    // All elements are read before any is stored, so the store must not overlap the loads.
    if (!l || l->buffer != load.buffer || l->dtype != load.dtype || s.buffer == load.buffer ||
        l->indices.size() != 1 || s.indices.size() != 1)
      return false;
    const auto lanes = columns(*l);
    return lanes && equal(lanes->stride, first.stride) &&
           is_const(simplify(lanes->base - first.base, rules_.ranges), i);
  }

  const std::vector<Stmt>& stmts_;
  const SquareRules& rules_;
  std::string& why_;
  TransposedSquare out_;
};

}  // namespace

std::optional<TransposedSquare> find_transposed_square(const std::vector<Stmt>& stmts, size_t from,
                                                       const SquareRules& rules, std::string* why) {
  return Finder(stmts, from, rules, why).run();
}

}  // namespace heddle::instructions
