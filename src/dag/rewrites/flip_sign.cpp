// Rewrites products of bytes of one sign as products of both signs, which vpdpbusd multiplies
// (oneDNN's s8s8 compensation): a ^ 0x80 is a + 128 as u8 where a is i8, a - 128 as i8 where it is
// u8.
//
//   result[i, j] = sum over k of i32(a[i, k]) * i32(b[k, j])                       (i8 and i8)
//
//   F[i, k]      = u8(a[i, k]) ^ 128
//   S[j]         = sum over k of i32(b[k, j])              once where b is constant
//   P[i, j]      = sum over k of i32(F[i, k]) * i32(b[k, j])
//   result[i, j] = S[j] * -128 + P[i, j]                   an epilogue of P
//
// Sums of i32 wrap, so this is exact whatever the values are.
#include <algorithm>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/instruction/instruction.h"

namespace heddle {
namespace {

constexpr int64_t kGroup = 4;  // products that one instruction adds up

bool is_byte(DataType t) { return t == i8 || t == u8; }

struct Factors {
  const Access* flipped = nullptr;
  const Access* summed = nullptr;  ///< the factor that is summed
};

/// The number of sums over operand `a`.
double sums_of(const Operation& op, const Access& a) {
  double n = 1;
  for (const Axis& x : op.axes()) {
    if (a.depends_on(x)) n *= static_cast<double>(x.extent());
  }
  return n;
}

/// Whether `k` alone is the index of a dimension of `a`, so that groups along it can be adjacent in
/// memory.
bool is_dimension(const Access& a, const Axis& k) {
  return std::any_of(a.affine.begin(), a.affine.end(), [&](const std::optional<Affine>& index) {
    return index && index->terms.size() == 1 && index->coefficient(k.var()) == 1 &&
           index->constant == 0;
  });
}

WhyNot match(const RewriteSite& site, Factors* out) {
  const Access* operands[2];
  if (WhyNot why = dag::match_contraction(site.dag, site.stage, operands); !why.empty()) return why;
  const Operation& op = site.op();
  const DataType a = operands[0]->tensor.dtype(), b = operands[1]->tensor.dtype();
  if (!is_byte(a) || !is_byte(b) || op.output(0).dtype() != i32)
    return WhyNot::other_kind("a sum of products of bytes");
  if (a != b) return WhyNot::other_kind("of factors of one sign");
  if (std::none_of(op.reduce_axes().begin(), op.reduce_axes().end(), [&](const Axis& k) {
        return k.extent() >= kGroup && is_dimension(*operands[0], k) &&
               is_dimension(*operands[1], k);
      }))
    return "no four of its terms can lie side by side";
  double cost[2];  // of computing the sums
  for (const int i : {0, 1}) {
    if (sums_of(op, *operands[i]) == 1) return WhyNot::other_kind("of matrices");
    for (const Axis& k : op.reduce_axes()) {
      if (!operands[i]->depends_on(k)) return "a factor is the same along " + k.name();
    }
    cost[i] = dag::is_constant_operand(site.dag, *operands[i]) ? 0 : sums_of(op, *operands[i]);
  }
  const int summed = cost[0] < cost[1] ? 0 : 1;
  *out = {operands[1 - summed], operands[summed]};
  return "";
}

WhyNot why_not(const RewriteSite& site) {
  Factors factors;
  return match(site, &factors);
}

/// The elements with their uppermost bit flipped, read as the other type of a byte.
Tensor with_sign_flipped(const Tensor& from, DataType other, const Operation& op) {
  return compute(
      from.shape(),
      [&](const std::vector<Axis>& i) {
        return bitwise_xor(cast(other, from(i)), make_const(other, other.is_int() ? -128 : 128));
      },
      from.name() + "_flipped", "flip_sign", op.where());
}

/// The element at the indices of an access, in terms of other axes, as a term of the sum.
Expr read_over(const Tensor& t, const Access& as, const std::vector<VarBinding>& to) {
  return cast(i32, dag::read_at(t, as, to));
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Factors factors;
  match(site, &factors);
  const Operation& op = site.op();
  const Tensor& from = factors.flipped->tensor;
  const DataType other = from.dtype().is_int() ? u8 : i8;
  const Tensor flipped = with_sign_flipped(from, other, op);

  // The indices of the stage in terms of the axes of another one.
  const auto over = [&](const std::vector<Axis>& spatial, const std::vector<std::size_t>& which,
                        std::vector<Axis>* reduce) {
    std::vector<VarBinding> to;
    for (std::size_t i = 0; i < which.size(); ++i)
      to.push_back({op.axes()[which[i]].var(), spatial[i]});
    for (const Axis& k : op.reduce_axes()) {
      reduce->push_back(reduce_axis(k->extent, k.name(), op.where()));
      to.push_back({k.var(), reduce->back()});
    }
    return to;
  };
  std::vector<std::size_t> all, own;  // all axes; those that the sums depend on
  Shape shape;
  for (std::size_t a = 0; a < op.axes().size(); ++a) {
    all.push_back(a);
    if (!factors.summed->depends_on(op.axes()[a])) continue;
    own.push_back(a);
    shape.push_back(op.axes()[a]->extent);
  }
  const Tensor sums = compute(
      shape,
      [&](const std::vector<Axis>& i) {
        std::vector<Axis> reduce;
        const std::vector<VarBinding> to = over(i, own, &reduce);
        return sum(read_over(factors.summed->tensor, *factors.summed, to), reduce);
      },
      op.name() + "_sums", "flip_sign", op.where());
  const Tensor product = compute(
      op.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Axis> reduce;
        const std::vector<VarBinding> to = over(i, all, &reduce);
        return sum(read_over(flipped, *factors.flipped, to) *
                       read_over(factors.summed->tensor, *factors.summed, to),
                   reduce);
      },
      op.name() + "_mixed", "flip_sign", op.where());
  return {compute(
      op.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at;
        for (std::size_t a : own) at.emplace_back(i[a]);
        // The sums are read first: stages are planned backwards, and the product must be the stage
        // that is computed within this one.
        return sums.at(at) * make_const(i32, other.is_int() ? 128 : -128) + product(i);
      },
      op.name(), op.tag(), op.where())};
}

// The time to flip or sum one element, in units of one product.
constexpr double kProductsAnElement = 8;
// The rows of an AMX tile, and the bytes of each row.
constexpr int64_t kTileRows = 16;
constexpr double kTileBytes = 64;
// The speed of groups of four over pairs. Groups of four take half the instructions and loads, but
// are not twice as fast.
constexpr double kFoursOverPairs = 1.7;

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  Factors factors;
  match(site, &factors);
  const DataType of = factors.flipped->tensor.dtype();
  if (target.is_cuda()) return {.why_not = "it is for instructions of CPUs"};
  if (adds_products(target, i32, of, of, 4))
    return {.why_not = "the target has an instruction for products of one sign"};
  if (!adds_products(target, i32, u8, i8, 4))
    return {.why_not = "the target has no instruction for products of both signs"};
  const ComputeDag& dag = site.dag;
  double depth = 1, elements = 0;
  for (const Axis& k : site.op().reduce_axes()) depth *= static_cast<double>(k.extent());
  if (target.has("amx-int8") && depth >= kTileBytes &&
      dag.info(site.stage).points >= kTileRows * kTileRows)
    return {.why_not = "the target multiplies tiles of bytes of any signs"};
  if (!dag::is_constant_operand(dag, *factors.summed))
    elements += sums_of(site.op(), *factors.summed) * depth;
  if (!dag::is_constant_operand(dag, *factors.flipped)) {
    double n = 1;
    for (const int64_t extent : factors.flipped->tensor.extents()) n *= static_cast<double>(extent);
    elements += n;
  }
  const double products = static_cast<double>(dag.info(site.stage).points) * depth;
  return {1 / (1 / kFoursOverPairs + kProductsAnElement * elements / products),
          "four products of both signs an instruction, not two of one"};
}

HEDDLE_REGISTER_REWRITE_RULE(
    {"flip_sign", {}, why_not, apply, [](const RewriteSite&) { return 1.0; }, estimate});

}  // namespace
}  // namespace heddle
