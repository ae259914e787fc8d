// Vectorized loops along rows of varying length, as align_rows looks for them.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "heddle/ir/stmt.h"
#include "heddle/support/function_ref.h"

namespace heddle::gpu {

/// for lane in 0..V (vectorized) { if (position + lane < length) { store } }, or with that
/// condition in a select of the stored value.
struct RowLoop {
  const For* loop = nullptr;
  Stmt stored;  ///< the store; a sum without the elements that the condition leaves out
  std::vector<Expr> guards;  ///< the conditions of the store
  bool guarded = false;      ///< nothing is stored where the condition is false
  Expr in_row;               ///< position + lane < length
  Expr position;             ///< that of the first lane
  std::vector<const For*> around;

  const Store& store() const { return *stored.as<Store>(); }
  int64_t lanes() const { return *as_int(loop->extent); }
  const Expr& length() const { return in_row.as<Binary>()->b; }  ///< the elements of the row
  bool is_inside(const Var& v) const;
  /// Whether the store adds to an element.
  bool is_sum() const;
  /// Whether the element stays with the thread for other loops.
  bool is_kept() const;
  void visit_accesses(FunctionRef<void(const Buffer&, const Expr& index)> fn) const;
  /// The flat index of the first element of the row, for an access at `index` to neighbours along
  /// the row. Undefined for other accesses.
  Expr start_of(const Expr& index) const;
};

/// The row loops of a kernel.
struct Rows {
  std::vector<RowLoop> loops;
  std::set<const For*> rounds;  ///< the loops over the vectors of a thread, if rows are shifted
  Expr start;                   ///< the flat index at which a row begins
  Expr shift;                   ///< start % lanes

  const RowLoop* of(const For& f) const;
  bool is_shifted() const { return !is_const(shift, 0); }
};

/// The row loops of a kernel. nullopt where there are none, or where their elements do not all have
/// the same place in the threads.
std::optional<Rows> find_rows(const Stmt& kernel);

/// Whether the buffer is the memory of the GPU.
bool is_memory(const Buffer& b);
/// Whether the condition is that of a position in the row.
bool is_below_length(const Expr& condition, const RowLoop& r);

}  // namespace heddle::gpu
