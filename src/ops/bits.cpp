#include "heddle/ops/bits.h"

#include <algorithm>

#include "ops/pad.h"
#include "ops/window.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

Expr word_of(DataType t, uint64_t value) { return make_int(t, static_cast<int64_t>(value)); }

/// `pattern` repeated over the bytes of a type.
Expr in_each_byte(DataType t, uint64_t pattern) {
  uint64_t value = 0;
  for (int bit = 0; bit < t.bits; bit += 8) value |= pattern << bit;
  return word_of(t, value);
}

/// Counts in pairs of bits, then in fours, in bytes, and their sum in the highest byte (Warren, Hacker's
/// Delight, section 5-1), in the form that LLVM recognises.
Expr count_bits(const Expr& x) {
  const DataType t = x.dtype();
  const auto shifted = [&](const Expr& v, uint64_t by) { return shift_right(v, word_of(t, by)); };
  Expr v = x - bitwise_and(shifted(x, 1), in_each_byte(t, 0x55));
  v = bitwise_and(v, in_each_byte(t, 0x33)) + bitwise_and(shifted(v, 2), in_each_byte(t, 0x33));
  v = bitwise_and(v + shifted(v, 4), in_each_byte(t, 0x0f));
  if (t.bits == 8) return v;
  return shifted(v * in_each_byte(t, 0x01), static_cast<uint64_t>(t.bits - 8));
}

Expr counted(const Expr& x) { return cast(i32, count_bits(x)); }

void check_words(const Call& call, DataType word) {
  if (!word.is_uint())
    impl::fail(call, "the type of words is " + to_string(word), "unsigned ones are");
}

void check_bits(const Call& call, const Tensor& x, int bits) {
  if (!x.dtype().is_uint() || bits < 1 || bits > x.dtype().bits)
    impl::fail(call, std::to_string(bits) + " bits of " + impl::describe(x),
               "numbers are unsigned, of at least that many bits");
}

/// Words along `axis` of what `bit_of` says of an element: `at` has the indices of x, and 'first', the
/// dimensions before them, of extents `front`.
template <class F>
Tensor packed(const Call& call, const Tensor& x, int axis, DataType word, const Dims& front,
              F bit_of) {
  const auto d = static_cast<size_t>(axis) + front.size();
  const int64_t n = x.extent(axis), size = word.bits;
  Dims dims = front;
  for (const int64_t extent : x.extents()) dims.push_back(extent);
  dims[d] = (n + size - 1) / size;
  const Axis bit = reduce_axis(size, "bit", call.where);
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at(i.begin() + static_cast<std::ptrdiff_t>(front.size()), i.end());
        const Expr from = i[d] * size + bit;
        at[static_cast<size_t>(axis)] = n % size == 0 ? from : heddle::min(from, Expr(n - 1));
        Expr one = bit_of(i, at);
        if (n % size != 0) one = select(from < n, one, word_of(word, 0));
        return heddle::sum(shift_left(one, cast(word, Expr(bit))), bit);
      },
      call.op, call.op, call.where);
}

/// Products of bits, added with the weights of their positions. `x` and `w` are words of plane i and j.
Expr products_of_bits(const BitSerial& b, const Expr& i, const Expr& j, const Expr& x,
                      const Expr& w) {
  Expr ones = counted(bitwise_and(x, w));
  if (b.signed_weights) ones = ones - counted(bitwise_and(x, bitwise_not(w)));
  return shift_left(ones, cast(i32, i + j));
}

}  // namespace

Tensor popcount(const Tensor& x, Where where) {
  const Call call{"popcount", where};
  impl::check_rank(call, x, "x", 0);
  const DataType t = x.dtype();
  if (!t.is_integral() || t.is_bool())
    impl::fail(call, "argument 'x' is " + impl::describe(x) + ", and needs integers");
  const DataType bits{TypeCode::UInt, t.bits, 1};
  return compute(
      x.shape(), [&](const std::vector<Axis>& i) { return cast(t, count_bits(cast(bits, x(i)))); },
      call.op, call.op, where);
}

Tensor pack_bits(const Tensor& x, int axis, DataType word, Where where) {
  const Call call{"pack_bits", where};
  impl::check_rank(call, x, "x", 1);
  check_words(call, word);
  return packed(call, x, impl::normal_axis(call, axis, x.rank()), word, {},
                [&](const std::vector<Axis>&, const std::vector<Expr>& at) {
                  const Expr value = x.at(at);
                  if (x.dtype().is_bool()) return cast(word, value);
                  return cast(word, value != make_const(x.dtype(), 0));
                });
}

Tensor pack_planes(const Tensor& x, int bits, int axis, DataType word, Where where) {
  const Call call{"pack_planes", where};
  impl::check_rank(call, x, "x", 1);
  check_words(call, word);
  check_bits(call, x, bits);
  return packed(call, x, impl::normal_axis(call, axis, x.rank()), word, {bits},
                [&](const std::vector<Axis>& i, const std::vector<Expr>& at) {
                  const Expr plane = shift_right(x.at(at), cast(x.dtype(), Expr(i[0])));
                  return cast(word, bitwise_and(plane, word_of(x.dtype(), 1)));
                });
}

Tensor binary_matmul(const Tensor& x, const Tensor& weight, int64_t depth, Where where) {
  const Call call{"binary_matmul", where};
  impl::check_rank(call, x, "x", 2, 2);
  impl::check_rank(call, weight, "weight", 2, 2);
  impl::check_same_type(call, x, weight);
  check_words(call, x.dtype());
  const int64_t words = x.extent(1), bits = words * x.dtype().bits;
  if (weight.extent(1) != words || depth > bits || depth <= bits - x.dtype().bits)
    impl::fail(call, "rows of " + std::to_string(words) + " and " +
                         std::to_string(weight.extent(1)) + " words do not have " +
                         std::to_string(depth) + " bits each");
  const Axis k = reduce_axis(words, "k", where);
  const Tensor differing = compute(
      Shape{x.extent(0), weight.extent(0)},
      [&](Axis i, Axis j) { return heddle::sum(counted(bitwise_xor(x(i, k), weight(j, k))), k); },
      "binary_differing", call.op, where);
  const Expr all = make_int(i32, depth), two = make_int(i32, 2);
  return compute(
      differing.shape(), [&](Axis i, Axis j) { return all - two * differing(i, j); }, call.op,
      call.op, where);
}

Tensor bitserial_matmul(const Tensor& x, const Tensor& weight, const BitSerial& bits, Where where) {
  const Call call{"bitserial_matmul", where};
  impl::check_rank(call, x, "x", 2, 2);
  impl::check_rank(call, weight, "weight", 2, 2);
  if (x.extent(1) != weight.extent(1))
    impl::fail(call, "'x' " + impl::text(x.extents()) + " and 'weight' " +
                         impl::text(weight.extents()) + " have rows of different lengths");
  const Tensor planes = pack_planes(x, bits.bits_x, 1, u32, where);
  const Tensor of_weight = pack_planes(weight, bits.bits_w, 1, u32, where);
  const Axis k = reduce_axis(planes.extent(2), "k", where);
  const Axis p = reduce_axis(bits.bits_x, "p", where), q = reduce_axis(bits.bits_w, "q", where);
  return compute(
      Shape{x.extent(0), weight.extent(0)},
      [&](Axis i, Axis j) {
        return heddle::sum(products_of_bits(bits, p, q, planes(p, i, k), of_weight(q, j, k)),
                           {k, p, q});
      },
      call.op, call.op, where);
}

Tensor bitserial_conv2d(const Tensor& x, const Tensor& weight, const BitSerial& bits,
                        const Conv& attributes, Where where) {
  const Call call{"bitserial_conv2d", where};
  impl::check_rank(call, x, "x", 4, 4);
  impl::check_rank(call, weight, "weight", 4, 4);
  const impl::Dimensions dims(attributes.layout, 2);
  const bool first = attributes.layout == Layout::ChannelsFirst;
  const int of_weight = first ? 1 : 2, of_kernel = first ? 2 : 0;
  if (attributes.groups != 1 || x.extent(dims.channel) != weight.extent(of_weight))
    impl::fail(
        call,
        "'weight' " + impl::text(weight.extents()) + " does not fit 'x' " + impl::text(x.extents()),
        "it has the channels of 'x', without groups");
  const Dims kernel{weight.extent(of_kernel), weight.extent(of_kernel + 1)};
  const impl::Window w =
      impl::window_of(call, 2, attributes.stride, attributes.padding, attributes.dilation);
  const Dims out = impl::window_counts(call, dims.spatial_dims(x), kernel, w);
  const Tensor padded =
      impl::pad_constant(call, x, dims.arrange<int64_t>(0, 0, w.before),
                         dims.arrange<int64_t>(0, 0, w.after), make_const(x.dtype(), 0));
  const Tensor xs = pack_planes(padded, bits.bits_x, dims.channel, u32, where);
  const Tensor ws = pack_planes(weight, bits.bits_w, of_weight, u32, where);
  const Axis c = reduce_axis(xs.extent(dims.channel + 1), "c", where);
  const Axis p = reduce_axis(bits.bits_x, "p", where), q = reduce_axis(bits.bits_w, "q", where);
  const std::vector<Axis> r = impl::reduce_axes(call, kernel, "r");
  const int64_t filters = weight.extent(first ? 0 : 3);
  return compute(
      impl::to_shape(dims.arrange(x.extent(0), filters, out)),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> place;
        for (const size_t d : {0, 1})
          place.push_back(i[static_cast<size_t>(dims.spatial(static_cast<int>(d)))] * w.stride[d] +
                          r[d] * w.dilation[d]);
        std::vector<Expr> at = dims.arrange<Expr>(i[0], c, place);
        at.insert(at.begin(), p);
        const Expr k = i[static_cast<size_t>(dims.channel)];
        const std::vector<Expr> at_w =
            first ? std::vector<Expr>{q, k, c, r[0], r[1]} : std::vector<Expr>{q, r[0], r[1], c, k};
        return heddle::sum(products_of_bits(bits, p, q, xs.at(at), ws.at(at_w)),
                           {c, r[0], r[1], p, q});
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
