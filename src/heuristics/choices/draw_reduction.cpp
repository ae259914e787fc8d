#include "heuristics/choices/draw_reduction.h"

#include "heddle/ops/elementwise.h"
#include "heddle/ops/nn.h"
#include "heddle/ops/reduce.h"
#include "heuristics/choices/draw.h"

namespace heddle::learning {
namespace {

// Draws few long rows, many short ones, or neither.
std::pair<std::int64_t, std::int64_t> draw_matrix(Rng& rng, double most_elements) {
  constexpr double kFewest = 1024;
  constexpr std::int64_t kLongest = 1 << 20;
  for (;;) {
    const std::int64_t rows = draw_extent(rng, 1, kLongest), cols = draw_extent(rng, 1, kLongest);
    const double elements = double(rows) * double(cols);
    if (elements >= kFewest && elements <= most_elements) return {rows, cols};
  }
}

Tensor reduced(Rng& rng, const Tensor& x, const std::vector<int>& axes, std::string& id) {
  const double kind = rng.uniform_real();
  if (kind < 0.7) return ops::sum(x, axes);
  if (kind >= 0.75 && kind < 0.87 && axes.size() == 1) {
    id += ",argmax";
    return ops::argmax(x, axes.front());
  }
  if (kind < 0.85) {
    id += ",max";
    return ops::max(x, axes);
  }
  id += ",of squares";
  return ops::sum(ops::mul(x, x), axes);
}

// Declares a norm of `groups` of channels, each with `length` elements.
DrawnProblem declare_groups(Rng& rng, DataType dtype, std::int64_t groups, std::int64_t length) {
  const auto divisor = [&](std::int64_t n, std::int64_t most) {
    const std::int64_t d = std::int64_t{1} << rng.uniform_int(0, most);
    return n % d == 0 ? d : 1;
  };
  const std::int64_t batch = divisor(groups, 3), channels = divisor(length, 5);
  const std::int64_t all = groups / batch * channels;
  const Tensor x = placeholder({batch, all, length / channels}, dtype, "x");
  const Tensor scale = placeholder({all}, dtype, "scale"),
               shift = placeholder({all}, dtype, "shift");
  return {"group_norm:" + sizes_text({batch, all, length / channels}) +
              ",groups=" + std::to_string(groups / batch) + type_text(dtype),
          {ops::group_norm(x, groups / batch, scale, shift)},
          {}};
}

// Declares reductions of rows whose results are applied to the elements of the rows.
DrawnProblem declare_rows(Rng& rng, const Tensor& x, std::int64_t rows, std::int64_t cols) {
  const std::string sizes = sizes_text({rows, cols}) + type_text(x.dtype());
  if (rng.chance(0.6)) return {"softmax:" + sizes, {ops::softmax(x)}, {}};
  const Tensor scale = placeholder({cols}, x.dtype(), "scale");
  const double norm = rng.uniform_real();
  if (norm < 0.5) return {"rms_norm:" + sizes, {ops::rms_norm(x, scale)}, {}};
  if (norm < 0.65) return declare_groups(rng, x.dtype(), rows, cols);
  const Tensor shift = placeholder({cols}, x.dtype(), "shift");
  return {"layer_norm:" + sizes, {ops::layer_norm(x, scale, shift)}, {}};
}

}  // namespace

DrawnProblem draw_row_group(Rng& rng, DataType dtype, double most_elements) {
  const auto [rows, cols] = draw_matrix(rng, most_elements);
  return declare_rows(rng, placeholder({rows, cols}, dtype, "x"), rows, cols);
}

DrawnProblem draw_reduction(Rng& rng, DataType dtype, double most_elements, ReducedAxis axis) {
  const auto [rows, cols] = draw_matrix(rng, most_elements);
  const Tensor x = placeholder({rows, cols}, dtype, "x");
  const std::vector<int> axes = axis == ReducedAxis::Rows      ? std::vector<int>{1}
                                : axis == ReducedAxis::Columns ? std::vector<int>{0}
                                                               : std::vector<int>{0, 1};
  std::string name = axis == ReducedAxis::Rows      ? "row_sum"
                     : axis == ReducedAxis::Columns ? "column_sum"
                                                    : "full_sum";
  const std::string subject = name;
  const Tensor y = reduced(rng, x, axes, name);
  // A reduction other than a sum is not a subject of the command line, so its id names the reducer
  // after the sizes.
  return {subject + ":" + sizes_text({rows, cols}) + name.substr(subject.size()) + type_text(dtype),
          {y},
          {}};
}

DrawnProblem draw_reduction(Rng& rng, DataType dtype, double most_elements) {
  if (rng.chance(0.3)) return draw_row_group(rng, dtype, most_elements);
  const double kind = rng.uniform_real();
  const ReducedAxis axis = kind < 0.55   ? ReducedAxis::Rows
                           : kind < 0.95 ? ReducedAxis::Columns
                                         : ReducedAxis::All;
  return draw_reduction(rng, dtype, most_elements, axis);
}

}  // namespace heddle::learning
