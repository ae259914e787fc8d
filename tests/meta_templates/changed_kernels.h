// Kernels of warp groups with a mistake: what the emulator says of them.
#pragma once

#include <functional>
#include <string>

#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"
#include "heddle/support/error.h"
#include "selftest/pair.h"

namespace heddle::testing {

/// What becomes of an operation or a barrier of a kernel; null: it is left out.
using Change = std::function<Stmt(const Stmt&)>;

inline Stmt changed(const Stmt& s, const Change& change) {
  if (!s) return s;
  if (s.as<TileOp>() || s.as<Sync>()) return change(s);
  return map_children(
      s, [&](const Stmt& c) { return changed(c, change); }, [](const Expr& e) { return e; });
}

/// What the emulator says of the kernel of `s`, which is right, with its statements changed.
inline std::string complaint_about(const selftest::RandomProgram& p, const Schedule& s,
                                   const Change& change) {
  GpuProgram lowered = lower_gpu(s, p.args());
  lowered.main[0].body = changed(lowered.main[0].body, change);
  const selftest::Case want(p, 3);
  try {
    emulate(lowered, want.fresh_arrays(), {.seed = 1});
  } catch (const Error& e) {
    return e.message;
  }
  return "";
}

/// Leaves out all operations of a kind.
template <class Operation>
Change without() {
  return [](const Stmt& s) { return tile_operation<Operation>(s) ? Stmt() : s; };
}

/// Waits for the phase before the first, which is over at once.
inline Change not_waiting_for(const std::string& barrier) {
  return [=](const Stmt& s) {
    const TileOp* op = s.as<TileOp>();
    if (!op || !op->as<tile::BarrierWait>() || op->operands[0].buffer->name != barrier) return s;
    return make_tile_op(op->op, {op->operands[0], {op->operands[1].buffer, Expr(1)}});
  };
}

/// Leaves out the fences in front of products.
inline Change without_fences() {
  return [](const Stmt& s) {
    const Sync* y = s.as<Sync>();
    return y && y->sync == SyncKind::GroupFence ? Stmt() : s;
  };
}

}  // namespace heddle::testing
