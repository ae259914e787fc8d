#include "codegen/interpreter/arguments.h"

#include <optional>

#include "ir/size_line.h"
#include "ir/sizes.h"

namespace heddle::interp {

void bind_argument(Compiler& exprs, const Buffer& buffer, const NDArray& array, const char* role) {
  const auto wrong = [&](const std::string& what) {
    throw_user_error(std::string(role) + " '" + buffer->name + "': " + what);
  };
  if (!array.defined()) wrong("no array");
  if (array.dtype() != buffer->dtype) {
    wrong("expected " + to_string(buffer->dtype) + ", got " + describe(array));
  }
  const auto& shape = array.shape();
  if (shape.size() != buffer->shape.size()) {
    wrong("expected " + std::to_string(buffer->shape.size()) + " dimensions, got " +
          describe(array));
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::optional<SizeLine> line = as_size_line(buffer->shape[d]);
    const auto* v = line ? line->size.get() : buffer->shape[d].as<VarNode>();
    if (v == nullptr || exprs.bound(v)) continue;
    const std::optional<std::int64_t> value = line ? line->size_of(shape[d]) : shape[d];
    if (!value) {
      wrong("extent " + std::to_string(shape[d]) + " of dimension " + std::to_string(d) +
            " is none of " + size_text(buffer->shape[d]));
    }
    exprs.bind(v)->i = *value;
  }
  const std::vector<std::int64_t> expected = evaluate_shape(exprs, buffer->shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (expected[d] != shape[d]) {
      wrong("expected extent " + std::to_string(expected[d]) + " in dimension " +
            std::to_string(d) + ", got " + describe(array));
    }
  }
  exprs.bind(buffer)->bind(array.data(), shape);
}

std::vector<std::int64_t> evaluate_shape(Compiler& exprs, const std::vector<Expr>& shape) {
  exprs.begin_unit(shape);
  std::vector<std::int64_t> extents;
  extents.reserve(shape.size());
  for (const Expr& e : shape) extents.push_back(exprs.compile(e)->int_value());
  return extents;
}

}  // namespace heddle::interp
