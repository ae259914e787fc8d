// Rounds the input of a product with weights of few bits to 8 bits, and multiplies integers (dynamic quantisation
// of activations: W8A8, W4A8).
//
//   result[i, n] = sum over k of x[i, k] * w[n, k]
//   w[n, k]      = scale[n, b] * (number[n, k] - zero[n, b]) + offset[n, b]        in blocks b of 32
//
//   M[i, b]      = max of |x[i, k]| in block b
//   Q[i, k]      = i8(round(x[i, k] * 127 / M[i, b]))
//   S[i, b]      = sum of Q in block b
//   P[n, k]      = number as u8, or two of 4 bits in each u8; once, since it is constant
//   D[i, n, b]   = sum in block b of P[n, k] * Q[i, k]                              of i32, exact
//   result[i, n] = sum over b of (f32(D - zero * S) * scale + offset * f32(S)) * M[i, b] / 127
//
// D is written out in the terms of the last sum. The lanes of a vector are neighbouring blocks, of which P and Q
// have four elements side by side: P[n, g, t, lane, j] is element 4 t + j of block g * lanes + lane. Eight
// instructions add up whole blocks then, and each block is scaled once.
#include <limits>

#include "dag/patterns/block_values.h"
#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/instruction/instruction.h"

namespace heddle {
namespace {

constexpr int64_t kBlock = 32, kFour = 4, kSteps = kBlock / kFour;
constexpr int64_t kMostRows = 4;  // as many as read weights of few bits without unpacking them
constexpr double kLargest = 127;  // of Q
constexpr double kLeast = 1e-30;  // blocks below are zeros: 127 / M would be infinite
constexpr Interval kFourBits{0, 15}, kUnsigned{0, 255}, kSigned{-128, 127};

bool lies_in(const Interval& a, const Interval& b) { return b.min <= a.min && a.max <= b.max; }

struct Factors {
  const Access *input = nullptr, *weights = nullptr;
  dag::BlockValues values;
  int64_t depth = 0;
  bool four_bits = false;
};

WhyNot match(const RewriteSite& site, Factors* out) {
  const Access* operands[2];
  if (WhyNot why = dag::match_contraction(site.dag, site.stage, operands); !why.empty()) return why;
  const Operation& op = site.op();
  if (op.reduce_axes().size() != 1 || op.axes().empty() || op.output(0).dtype() != f32)
    return WhyNot::other_kind("a product of matrices in f32");
  const Axis& k = op.reduce_axes()[0];
  if (!as_int(k->extent)) return WhyNot::other_kind("of a constant depth");
  for (const int w : {0, 1}) {
    const Access &weights = *operands[w], &input = *operands[1 - w];
    const Operation& made = *weights.tensor.op();
    if (made.is_placeholder() || made.is_reduction() || made.num_outputs() != 1 ||
        !dag::is_constant_operand(site.dag, weights) || weights.tensor.rank() != 2 ||
        !input.tensor.dtype().is_float() || !dag::lies_along(weights, k) ||
        !dag::lies_along(input, k))
      continue;
    const int64_t depth = k.extent();
    std::optional<dag::BlockValues> values =
        dag::as_block_values(made.bodies()[0], made.axes()[1].var(), depth, kBlock);
    if (!values) return "the weights are no integers with a scale in blocks of 32";
    if (!lies_in(values->range, kUnsigned) && !lies_in(values->range, kSigned))
      return "the integers of the weights have more than 8 bits";
    if (depth % (kBlock * site.values.at(0)) != 0)
      return "the depth is no multiple of the blocks of a vector";
    const bool four_bits = lies_in(values->range, kFourBits);
    *out = {&input, &weights, *std::move(values), depth, four_bits};
    return "";
  }
  return WhyNot::other_kind("a product with computed weights");
}

WhyNot why_not(const RewriteSite& site) {
  Factors factors;
  return match(site, &factors);
}

class Rewriter {
 public:
  explicit Rewriter(const RewriteSite& site) : op_(site.op()), lanes_(site.values.at(0)) {
    match(site, &f_);
    groups_ = f_.depth / (kBlock * lanes_);
    for (std::size_t a = 0; a < op_.axes().size(); ++a) {
      if (!f_.input->depends_on(op_.axes()[a])) continue;
      own_.push_back(a);
      rows_.push_back(op_.axes()[a]->extent);
    }
  }

  Tensor run() {
    const Tensor largest = largest_of_blocks(), numbers = rounded(largest), sums = summed(numbers),
                 packed = packed_weights();
    return compute(
        op_.output(0).shape(),
        [&](const std::vector<Axis>& i) {
          const Axis group = reduce_axis(groups_, "g", op_.where()),
                     lane = reduce_axis(lanes_, "l", op_.where());
          const Expr block = Expr(group) * lanes_ + lane;
          std::vector<VarBinding> to;
          std::vector<Expr> own;
          for (std::size_t a = 0; a < i.size(); ++a) to.push_back({op_.axes()[a].var(), i[a]});
          for (const std::size_t a : own_) own.emplace_back(i[a]);
          const Expr n = substitute(f_.weights->indices[0], to);
          const Expr s = sums.at(joined(own, {block}));
          Expr dot = products(packed, numbers, n, own, group, lane);
          Expr zero = zero_of_numbers();
          if (!is_const(zero, 0)) dot = dot - at(zero, n, block) * s;
          Expr value = cast(f32, dot) * at(f_.values.scale, n, block);
          if (f_.values.offset.defined())
            value = value + cast(f32, s) * at(f_.values.offset, n, block);
          const Expr step = largest.at(joined(own, {block})) * make_const(f32, 1 / kLargest);
          return sum(value * step, {group, lane});
        },
        op_.name(), op_.tag(), op_.where());
  }

 private:
  static std::vector<Expr> joined(std::vector<Expr> a, const std::vector<Expr>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  Shape shape_of(const Shape& before, const std::vector<int64_t>& extents) const {
    Shape all = before;
    for (const int64_t e : extents) all.emplace_back(e);
    return all;
  }
  std::vector<Expr> own_of(const std::vector<Axis>& axes) const {
    return {axes.begin(), axes.begin() + static_cast<long>(own_.size())};
  }

  /// Element `k` of a row of the input.
  Expr input(const std::vector<Expr>& own, const Expr& k) const {
    std::vector<VarBinding> to{{op_.reduce_axes()[0].var(), k}};
    for (std::size_t a = 0; a < own_.size(); ++a) to.push_back({op_.axes()[own_[a]].var(), own[a]});
    return cast(f32, dag::read_at(f_.input->tensor, *f_.input, to));
  }

  Tensor largest_of_blocks() const {
    return compute(
        shape_of(rows_, {f_.depth / kBlock}),
        [&](const std::vector<Axis>& i) {
          const Axis inner = reduce_axis(kBlock, "i", op_.where());
          return reduce_max(abs(input(own_of(i), Expr(i.back()) * kBlock + inner)), {inner});
        },
        op_.name() + "_largest", "dynamic_quantization", op_.where());
  }

  Tensor rounded(const Tensor& largest) const {
    return compute(
        shape_of(rows_, {groups_, kSteps, lanes_, kFour}),
        [&](const std::vector<Axis>& i) {
          const std::vector<Expr> own = own_of(i);
          const Axis* at = &i[own.size()];
          const Expr block = Expr(at[0]) * lanes_ + at[2];
          const Expr most = largest.at(joined(own, {block}));
          const Expr x = input(own, block * kBlock + Expr(at[1]) * kFour + at[3]);
          // A block with an infinite or no number has a step that is none, and so has its result.
          const Expr known =
              logical_and(most > make_const(f32, kLeast),
                          most <= make_const(f32, std::numeric_limits<float>::max()));
          return cast(
              i8, select(known, round(x * (make_const(f32, kLargest) / most)), make_const(f32, 0)));
        },
        op_.name() + "_rounded", "dynamic_quantization", op_.where());
  }

  Tensor summed(const Tensor& numbers) const {
    return compute(
        shape_of(rows_, {f_.depth / kBlock}),
        [&](const std::vector<Axis>& i) {
          const Axis t = reduce_axis(kSteps, "t", op_.where()),
                     j = reduce_axis(kFour, "j", op_.where());
          const Expr block(i.back());
          return sum(cast(i32, numbers.at(joined(own_of(i), {floordiv(block, lanes_), t,
                                                             floormod(block, lanes_), j}))),
                     {t, j});
        },
        op_.name() + "_sums", "dynamic_quantization", op_.where());
  }

  bool is_signed() const { return f_.values.range.min < 0; }
  /// The zero of the numbers as u8.
  Expr zero_of_numbers() const {
    Expr zero = f_.values.zero.defined() ? f_.values.zero : make_const(i32, 0);
    return is_signed() ? zero + 128 : zero;
  }
  /// A part of the weights in another row and block.
  Expr at(const Expr& part, const Expr& n, const Expr& block, const Expr& inner = Expr(0)) const {
    return substitute(part, {{f_.weights->tensor.op()->axes()[0].var(), n},
                             {f_.values.block, block},
                             {f_.values.inner, inner}});
  }

  Tensor packed_weights() const {
    const int64_t steps = f_.four_bits ? kSteps / 2 : kSteps;
    return compute(
        Shape{f_.weights->tensor.extent(0), groups_, steps, lanes_, kFour},
        [&](Axis n, Axis g, Axis t, Axis lane, Axis j) {
          const Expr block = Expr(g) * lanes_ + lane, inner = Expr(t) * kFour + j;
          const Expr number = cast(i32, at(f_.values.number, n, block, inner));
          if (!f_.four_bits) return cast(u8, is_signed() ? number + 128 : number);
          const Expr upper = cast(i32, at(f_.values.number, n, block, inner + kBlock / 2));
          return cast(u8, number + upper * 16);
        },
        f_.weights->tensor.name() + "_packed", "dynamic_quantization", op_.where());
  }

  /// The sum of a block of products.
  Expr products(const Tensor& packed, const Tensor& numbers, const Expr& n,
                const std::vector<Expr>& own, const Expr& group, const Expr& lane) const {
    Expr all;
    for (int64_t t = 0; t < kSteps; ++t) {
      for (int64_t j = 0; j < kFour; ++j) {
        const int64_t steps = f_.four_bits ? kSteps / 2 : kSteps;
        Expr weight = cast(i32, packed(n, group, t % steps, lane, j));
        if (f_.four_bits)
          weight = t < steps ? bitwise_and(weight, make_const(i32, 15))
                             : shift_right(weight, make_const(i32, 4));
        const Expr term =
            weight * cast(i32, numbers.at(joined(own, {group, Expr(t), lane, Expr(j)})));
        all = all.defined() ? all + term : term;
      }
    }
    return all;
  }

  const Operation& op_;
  const int64_t lanes_;
  Factors f_;
  int64_t groups_ = 0;
  std::vector<std::size_t> own_;  ///< the axes that the input depends on
  Shape rows_;
};

std::vector<Tensor> apply(const RewriteSite& site) { return {Rewriter(site).run()}; }

/// At the least, over weights of 4 bits that tables in registers unpack.
constexpr double kGain = 1.5;

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  if (target.is_cuda()) return {.why_not = "it is for instructions of CPUs"};
  if (!adds_products(target, i32, u8, i8, 4))
    return {.why_not = "the target has no instruction for products of bytes of both signs"};
  if (site.values.at(0) * i32.bytes() != target.vector_bytes)
    return {.why_not = "the vectors of the target have other lanes"};
  Factors factors;
  match(site, &factors);
  int64_t rows = 1;
  for (const Axis& a : site.op().axes()) rows *= factors.input->depends_on(a) ? a.extent() : 1;
  if (rows > kMostRows) return {.why_not = "many rows read weights that were unpacked once"};
  return {kGain, "products of bytes, four an instruction, and weights that stay packed"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "dynamic_quantization",
                              .parameters = {{"lanes", {4, 8, 16}}},
                              .why_not = why_not,
                              .apply = apply,
                              .error_growth = [](const RewriteSite&) { return 1.0; },
                              .estimate = estimate,
                              .numerics = Numerics::Approximate});

}  // namespace
}  // namespace heddle
