// Products are made of shorter numbers, as PassOptions::types names them. Sums stay in f32.
//
//   p[k, y] = sum over c of x[c, y] * w[k, c]                                       (before)
//
//   s[c, y] = bf16(x[c, y])                                                         (after, bf16)
//   v[k, c] = bf16(w[k, c])                                   once
//   p[k, y] = sum over c of f32(s[c, y]) * f32(v[k, c])
//
//   p[k, y] = sum over c of round_tf32(x[c, y]) * round_tf32(w[k, c])               (after, tf32)
//
//   q[c, y] = u8(clamp(round(x[c, y] / scale) + zero))                              (after, u8)
//   s[c, y] = f32(i32(q[c, y]) - zero) * scale
//   t[k]    = (the largest |w[k, c]| over c) / 127            once
//   v[k, c] = i8(round(w[k, c] / t[k]))                       once
//   p[k, y] = sum over c of s[c, y] * (f32(i32(v[k, c])) * t[k])
//
// The pass integer_products, which follows, makes the last form a product of bytes. 8-bit floats
// are scaled like bytes, and their products afterwards. Values become short where they are computed:
// stages that move or pad them on the way to the product move short numbers.
#include <map>
#include <utility>

#include "dag/patterns/look_through.h"
#include "dag/rewrites/rebuilder.h"
#include "heddle/support/error.h"
#include "network/passes/graph_pass.h"
#include "network/passes/product_places.h"
#include "network/passes/quantised.h"

namespace heddle::network {
namespace {

constexpr double kMostOfI8 = 127, kMostOfE4M3 = 448;

/// value / scale + zero as a number of 8 bits, saturated.
Expr in_steps(const Expr& value, const Expr& scale, DataType type, int zero = 0) {
  const Expr steps = value / scale;
  if (type.is_float8()) return cast(type, steps);
  const double low = type.is_uint() ? 0 : -128;
  const Expr whole = zero == 0 ? round(steps) : round(steps) + make_const(f32, zero);
  return cast(type, min(max(whole, make_const(f32, low)), make_const(f32, low + 255)));
}

/// The short forms of tensors, each made once.
class ShortTensors {
 public:
  explicit ShortTensors(const ComputeDag& dag) : dag_(dag) {}

  /// The operand that is computed at every call: in its type, or of bytes what they stand for.
  Tensor computed(const Tensor& t, const OperandType& as) {
    Tensor& made = computed_[{t.op(), t.index(), to_string(as)}];
    if (!made) made = moved(t, as);
    return made;
  }

  struct Weights {
    Tensor values, scales;  ///< `scales`: over channel_dimensions
  };
  /// The weights in 8 bits. Of bytes `values` are what they stand for.
  const Weights& weights(const Operation& product, const Load& load, DataType type) {
    const Tensor w = tensor_of(load.buffer);
    const std::vector<size_t> channels = channel_dimensions(product, load);
    Weights& made = weights_[{w.op(), w.index(), to_string(type), channels}];
    if (!made.values) made = scaled_weights(w, channels, type);
    return made;
  }

 private:
  Tensor moved(const Tensor& t, const OperandType& as) {
    const Load* read = moved_or_padded_read(dag_, t);
    if (!read) return at_source(t, as);
    const Operation& op = *t.op();
    Expr body = computed(tensor_of(read->buffer), as).at(read->indices);
    if (const Select* pad = op.bodies()[0].as<Select>())
      body = select(pad->condition, body, make_const(body.dtype(), 0));
    return like(op, body, op.name());
  }

  static Tensor at_source(const Tensor& t, const OperandType& as) {
    const Operation& op = *t.op();
    const std::string name = t.name() + "_" + to_string(as.type);
    const Expr scale = make_const(f32, as.scale);
    const bool bytes = as.type == u8 || as.type == i8;
    const Tensor made = compute(
        t.shape(),
        [&](const std::vector<Axis>& i) {
          return as.type.bits > 8 ? cast(as.type, t(i))
                                  : in_steps(cast(f32, t(i)), scale, as.type, as.zero);
        },
        name, "quantize", op.where());
    if (!bytes) return made;
    return compute(
        t.shape(),
        [&](const std::vector<Axis>& i) {
          Expr q = cast(i32, made(i));
          if (as.zero != 0) q = q - Expr(as.zero);
          return cast(f32, q) * scale;
        },
        t.name() + "_" + to_string(f32), "dequantize", op.where());
  }

  static Weights scaled_weights(const Tensor& w, const std::vector<size_t>& channels,
                                DataType type) {
    const Where where = w.op()->where();
    const bool bytes = !type.is_float8();
    const auto of_channel = [&](const Tensor& t, const std::vector<Axis>& i) {
      std::vector<Expr> at;
      for (const size_t d : channels) at.emplace_back(i[d]);
      return t.at(at);
    };
    Shape shape;
    for (const size_t d : channels) shape.push_back(w.shape()[d]);
    const Tensor largest = compute(
        shape, [&](const std::vector<Axis>& k) { return largest_of(w, channels, k); },
        w.name() + "_largest", "quantize", where);
    const Tensor scales = compute(
        shape,
        [&](const std::vector<Axis>& k) {
          const Expr most = largest(k), one = make_const(f32, 1);
          return select(most > make_const(f32, 0),
                        most / make_const(f32, bytes ? kMostOfI8 : kMostOfE4M3), one);
        },
        w.name() + "_scales", "quantize", where);
    const Tensor numbers = compute(
        w.shape(),
        [&](const std::vector<Axis>& i) {
          return in_steps(cast(f32, w(i)), of_channel(scales, i), bytes ? i8 : type);
        },
        w.name() + "_" + to_string(bytes ? i8 : type), "quantize", where);
    if (!bytes) return {numbers, scales};
    return {compute(
                w.shape(),
                [&](const std::vector<Axis>& i) {
                  return cast(f32, cast(i32, numbers(i))) * of_channel(scales, i);
                },
                w.name() + "_" + to_string(f32), "dequantize", where),
            scales};
  }

  static Expr largest_of(const Tensor& w, const std::vector<size_t>& channels,
                         const std::vector<Axis>& k) {
    std::vector<Expr> at(static_cast<size_t>(w.rank()));
    for (size_t c = 0; c < channels.size(); ++c) at[channels[c]] = k[c];
    std::vector<Axis> rest;
    for (size_t d = 0; d < at.size(); ++d) {
      if (at[d].defined()) continue;
      rest.emplace_back("r" + std::to_string(d), w.shape()[d], AxisKind::Reduce);
      at[d] = rest.back();
    }
    const Expr value = abs(cast(f32, w.at(at)));
    return rest.empty() ? value : reduce_max(value, rest);
  }

  const ComputeDag& dag_;
  std::map<std::tuple<const Operation*, int, std::string>, Tensor> computed_;
  std::map<std::tuple<const Operation*, int, std::string, std::vector<size_t>>, Weights> weights_;
};

/// The product of short numbers.
Tensor in_short(const ComputeDag& dag, const ProductPlace& p, const OperandType& as,
                ShortTensors& made) {
  const Operation& op = dag.stage(p.stage);
  const Reduce& r = *op.bodies()[0].as<Reduce>();
  if (as.tf32) {
    const auto rounded = [](const Load& l) {
      return round_tf32(cast(f32, make_load(l.buffer, l.indices)));
    };
    return like(op, sum(rounded(*p.operands[0]) * rounded(*p.operands[1]), r.axes), op.name());
  }
  Expr factors[2], scales;
  for (const int i : {0, 1}) {
    const Load& load = *p.operands[i];
    const bool weight = as.type.bits == 8 && i == p.weights;
    if (!weight) {
      factors[i] = made.computed(tensor_of(load.buffer), as).at(load.indices);
      continue;
    }
    const ShortTensors::Weights& w = made.weights(op, load, as.type);
    factors[i] = w.values.at(load.indices);
    std::vector<Expr> channel;
    for (const size_t d : channel_dimensions(op, load)) channel.push_back(load.indices[d]);
    scales = w.scales.at(channel);
  }
  const auto wide = [](const Expr& e) { return e.dtype() == f32 ? e : cast(f32, e); };
  const Tensor sums = like(op, sum(wide(factors[0]) * wide(factors[1]), r.axes), op.name());
  if (!as.type.is_float8()) return sums;
  return like(op, sums(op.axes()) * (scales * make_const(f32, as.scale)), op.name() + "_scaled");
}

}  // namespace

std::vector<Tensor> precision(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  dag::Rebuilder rebuilder;
  ShortTensors made(dag);
  std::map<std::string, int> found;
  for (const ProductPlace& p : product_places(dag, context.choices.expected_types())) {
    const OperandType type = context.choices.type_of(p.place, p.stage);
    if (type.is_declared()) continue;
    const bool named = context.options.types.contains(name_of(ChoiceKind::Precision, p.place));
    if (!may_be(p, type.type) && !named) continue;  // one of all products of an operator
    if (!may_be(p, type.type))
      throw_user_error("the product '" + p.place + "' has no weights, which numbers of " +
                           to_string(type.type) + " need",
                       {}, "name f16 or bf16 for it");
    rebuilder.replace(dag.stage(p.stage).output(0), in_short(dag, p, type, made));
    ++found[type.tf32 ? to_string(type) : to_string(type.type)];
  }
  for (const auto& [type, count] : found)
    context.changed(std::to_string(count) + " products are of " + type);
  return found.empty() ? dag.outputs() : rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
