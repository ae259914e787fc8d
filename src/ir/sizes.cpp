#include "ir/sizes.h"

#include <algorithm>

#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/size_line.h"

namespace heddle {

bool is_symbolic(const Expr& extent) {
  bool sizes = false, others = false;
  visit(extent, [&](const Expr& e) {
    if (const VarNode* v = e.as<VarNode>()) (v->size ? sizes : others) = true;
    others |= e.kind() == ExprKind::Load || e.kind() == ExprKind::Reduce;
  });
  return sizes && !others;
}

int64_t largest_extent(const Expr& extent) {
  if (const int64_t* n = as_int(extent)) return *n;
  const Interval r = range_of(extent, {});
  HEDDLE_ICHECK(r.bounded(), "the extent " + to_string(extent) + " has no largest value");
  return r.max;
}

void add_sizes(const Expr& e, std::vector<Var>* sizes) {
  visit(e, [&](const Expr& x) {
    const VarNode* v = x.as<VarNode>();
    if (!v || !v->size) return;
    const bool known =
        std::any_of(sizes->begin(), sizes->end(), [&](const Var& s) { return s.get() == v; });
    if (!known) sizes->push_back(Var::from(x));
  });
}

std::vector<Var> sizes_in(const Expr& e) {
  std::vector<Var> sizes;
  add_sizes(e, &sizes);
  return sizes;
}

std::optional<ScaledSize> as_scaled_size(const Expr& extent) {
  const std::optional<SizeLine> line = as_size_line(extent);
  if (!line || line->constant != 0) return std::nullopt;
  return ScaledSize{line->size, line->factor};
}

std::string size_text(const Expr& extent) {
  const Interval r = range_of(extent, {});
  return to_string(extent) + ", which is " + std::to_string(r.min) + " to " + std::to_string(r.max);
}

void fail_symbolic(const std::string& what, const Expr& extent) {
  throw_user_error(what + " has the symbolic extent " + size_text(extent) +
                       ", and a constant one is needed here",
                   {}, "take the declaration at one size, with at_sizes (dag/instance.h)");
}

}  // namespace heddle
