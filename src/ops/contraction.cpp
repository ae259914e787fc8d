#include "ops/contraction.h"

#include <utility>

namespace heddle::ops::impl {

ContractionTypes contraction_types(const Call& call, const Tensor& a, const Tensor& b,
                                   const Precision& precision) {
  const DataType ta = a.dtype(), tb = b.dtype();
  const bool bytes = ta.is_integral() && tb.is_integral() && ta.bits == 8 && tb.bits == 8;
  // The two 8-bit floats may be mixed: they differ in range and precision, and machines multiply
  // them.
  if (!bytes && !(ta.is_float8() && tb.is_float8())) check_same_type(call, a, b);
  if (ta.is_bool())
    fail(call, "'" + a.name() + "' is " + describe(a) + ", and products need numbers",
         "convert it with ops::cast(x, f32), or use reductions any and all");
  ContractionTypes types{ta, ta};
  if (ta.is_float() && ta.bits < 32) types.accumulate = f32;
  if (ta.is_integral() && ta.bits < 32) types.accumulate = types.output = i32;
  if (precision.accumulate) {
    types.accumulate = *precision.accumulate;
    if (types.accumulate.is_bool() || types.accumulate.is_vector() ||
        (ta.is_float() && !types.accumulate.is_float()))
      fail(call,
           "cannot add up products of " + to_string(ta) + " in " + to_string(types.accumulate));
    if (!ta.is_float()) types.output = types.accumulate;
  }
  if (precision.output) types.output = *precision.output;
  return types;
}

Expr product_in(DataType t, Expr a, Expr b) {
  return heddle::cast(t, std::move(a)) * heddle::cast(t, std::move(b));
}

Tensor finish_contraction(const Call& call, const Tensor& sums, const Tensor& bias, int bias_axis,
                          const ContractionTypes& types) {
  if (!bias) return convert(call, sums, types.output);
  if (bias.rank() != 1 || bias.extent(0) != sums.extent(bias_axis))
    fail(call, "'bias' has shape " + text(bias.extents()) + ", and needs (" +
                   std::to_string(sums.extent(bias_axis)) + ")");
  const bool number = !bias.dtype().is_bool() && bias.dtype().is_float() == types.output.is_float();
  if (!number)
    fail(call, "'bias' is " + describe(bias) + " but the result is " + to_string(types.output));
  const size_t d = static_cast<size_t>(bias_axis < 0 ? bias_axis + sums.rank() : bias_axis);
  return compute(
      sums.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr total = sums(i) + heddle::cast(sums.dtype(), bias(i[d]));
        return heddle::cast(types.output, total);
      },
      std::string(call.op) + "_bias", "bias_add", call.where);
}

}  // namespace heddle::ops::impl
