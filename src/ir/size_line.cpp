#include "ir/size_line.h"

#include "heddle/ir/simplify.h"

namespace heddle {

std::optional<int64_t> SizeLine::size_of(int64_t elements) const {
  const int64_t value = (elements - constant) / factor;
  if (value * factor + constant != elements) return std::nullopt;
  if (value < size->size->lo || value > size->size->hi) return std::nullopt;
  return value;
}

std::optional<SizeLine> as_size_line(const Expr& extent) {
  const std::optional<Affine> a = as_affine(extent);
  if (!a || a->terms.size() != 1) return std::nullopt;
  const Affine::Term& t = a->terms[0];
  if (!t.var->size || t.coefficient < 1) return std::nullopt;
  return SizeLine{t.var, t.coefficient, a->constant};
}

}  // namespace heddle
