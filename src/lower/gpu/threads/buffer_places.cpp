#include "lower/gpu/threads/buffer_places.h"

#include <optional>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/threads/thread_loops.h"

namespace heddle::gpu {
namespace {

Decision in_shared(const BufferUse& use) {
  const Buffer& b = use.allocate->buffer;
  std::vector<Expr> shape;
  for (const OpenLoop& l : use.around) shape.push_back(Expr(l.extent));
  shape.insert(shape.end(), b->shape.begin(), b->shape.end());
  return {Buffer::make(b->name, b->dtype, std::move(shape), Scope::Shared),
          use.around,
          {std::vector<std::vector<Digit>>(b->shape.size())}};
}

// Whether `index` equals `part`, a part of the lane's number, for all lanes that execute the
// access. Conditions may exclude some lanes.
bool is_part(const BufferAccess& a, const Expr& index, const Expr& part) {
  Ranges ranges;
  for (const OpenLoop& l : a.loops) ranges.set(l.var, {0, l.extent - 1});
  if (equal(simplify(index), simplify(part, ranges))) return true;
  const Buffer probe = Buffer::make("probe", f32, {Expr(kWarp)}, Scope::Local);
  Stmt s = make_store(probe, {part - index}, make_const(f32, 0));
  for (const Expr& c : a.conditions) s = make_if(c, s);
  bool same = true;
  visit(
      simplify(s, ranges),
      [&](const Stmt& x) {
        const Store* st = x.as<Store>();
        same &= !st || is_const(st->indices[0], 0);
      },
      [](const Expr&) {});
  return same;
}

// Registers for a fragment: each lane holds the elements that PTX assigns to it.
Decision in_fragment(const BufferUse& use, Fragment f, const LaunchShape& shape) {
  const Buffer& b = use.allocate->buffer;
  const size_t lane = lane_dim(f, b->shape.size());
  const size_t lanes = f == Fragment::Row ? 1 : 2;
  BufferUse rest = use;
  for (BufferAccess& a : rest.accesses) {
    if (!a.tile) {
      const OpenLoop* x = a.thread_loop(0);
      const bool own =
          x && x->extent == kWarp &&
          is_part(a, a.indices[lane], floordiv(x->var.expr(), Expr(4))) &&
          (lanes < 2 || is_part(a, a.indices[lane + 1], floormod(x->var.expr(), Expr(4))));
      HEDDLE_ICHECK(own, "a lane reads elements of '" + b->name + "' that are another lane's");
    }
    for (size_t d = lane; d < lane + lanes; ++d) a.indices[d] = Expr(0);
  }
  std::optional<ThreadDigits> digits = find_thread_digits(rest, shape, true);
  HEDDLE_ICHECK(digits, "the warps do not agree whose the fragment '" + b->name + "' is");
  std::vector<Expr> dims = without_digits(b, *digits)->shape;
  dims.erase(dims.begin() + static_cast<long>(lane),
             dims.begin() + static_cast<long>(lane + lanes));
  return {Buffer::make(b->name, b->dtype, std::move(dims), Scope::Local),
          {},
          std::move(*digits),
          static_cast<int>(lane),
          static_cast<int>(lanes)};
}

}  // namespace

Decisions decide(const BufferUses& uses, const Fragments& fragments, const LaunchShape& shape) {
  Decisions out;
  for (const auto& [node, use] : uses) {
    const Buffer& b = use.allocate->buffer;
    if (auto f = fragments.find(node); f != fragments.end()) {
      out[node] = in_fragment(use, f->second, shape);
    } else if (b->scope == Scope::Local) {
      if (std::optional<ThreadDigits> digits = find_thread_digits(use, shape)) {
        out[node] = {without_digits(b, *digits), {}, std::move(*digits)};
      } else {
        out[node] = in_shared(use);
      }
    } else if (b->scope == Scope::Shared && !use.around.empty()) {
      out[node] = in_shared(use);
    }
  }
  return out;
}

}  // namespace heddle::gpu
