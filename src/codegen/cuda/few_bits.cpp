// Numbers of few bits that lanes take of one word: weights of 4 bits, of which a 32-bit word has eight.
//
// They become floats behind an exponent: of 2^23 + q, as the bits of an f32, q are the lowest bits, and subtracting
// 2^23 + zero is exact. Two numbers that lie 16 bits apart are a pair of 16-bit floats at once, 2^7 + q in bf16 and
// 2^10 + q in f16, and are multiplied by their scale together: each lane writes the pair and takes its half of it, and
// the compiler computes what is equal once.
#include <bit>

#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/text/types.h"

namespace heddle::cuda {
namespace {

/// What constants at a lane are, of sums, products and quotients of lanes.
std::optional<int64_t> constant_at(const Expr& e, int lane) {
  if (const int64_t* c = as_int(e)) return *c;
  if (const Broadcast* b = e.as<Broadcast>()) return constant_at(b->value, lane);
  if (const Cast* c = e.as<Cast>(); c && c->dtype.is_integral() && !c->dtype.is_bool())
    return constant_at(c->value, lane);
  if (const Ramp* r = e.as<Ramp>()) {
    const auto base = constant_at(r->base, lane), stride = constant_at(r->stride, lane);
    if (!base || !stride) return std::nullopt;
    return *base + lane * *stride;
  }
  const Binary* b = e.as<Binary>();
  if (!b || !b->dtype.is_integral()) return std::nullopt;
  const auto x = constant_at(b->a, lane), y = constant_at(b->b, lane);
  if (!x || !y) return std::nullopt;
  const DataType t = b->a.dtype().element();
  const Expr folded = make_binary(b->op, make_int(t, *x), make_int(t, *y));
  const int64_t* c = as_int(folded);
  return c ? std::optional(*c) : std::nullopt;
}

std::string hexadecimal(uint32_t bits) {
  static constexpr const char* kDigits = "0123456789abcdef";
  std::string s = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) s += kDigits[(bits >> shift) & 15];
  return s + "u";
}

/// Both halves of a word.
constexpr uint32_t twice(uint32_t bits) { return bits << 16 | bits; }

constexpr int kByte = 8;

}  // namespace

const KernelWriter::WordPart* KernelWriter::word_of(const Key& key) const {
  for (int f = frame_; f >= 0; f = frames_[f].outer) {
    const auto it = frames_[f].words.find(key);
    if (it != frames_[f].words.end()) return &it->second;
  }
  return nullptr;
}

// number - zero, where the number is (byte >> shift) & mask and the lanes' bytes are parts of words.
std::optional<KernelWriter::FewBits> KernelWriter::few_bits(const Expr& e, int lane) {
  if (!e.dtype().is_vector() || per_lane_ || !e.dtype().is_int()) return std::nullopt;
  FewBits r;
  Expr x = e;
  const auto binary = [&](BinaryOp op) {
    const Binary* b = x.as<Binary>();
    return b && b->op == op ? b : nullptr;
  };
  if (const Binary* minus = binary(BinaryOp::Sub)) {
    const Broadcast* zero = minus->b.as<Broadcast>();
    if (!zero) return std::nullopt;
    r.zero = zero->value;
    x = minus->a;
  } else if (const Binary* plus = binary(BinaryOp::Add)) {
    const std::optional<int64_t> added = constant_at(plus->b, lane);
    if (!added || !plus->b.as<Broadcast>()) return std::nullopt;
    r.zero = make_int(e.dtype().element(), -*added);
    x = plus->a;
  }
  std::optional<int64_t> mask, shift = 0;
  if (const Binary* masked = binary(BinaryOp::BitAnd)) {
    mask = constant_at(masked->b, lane);
    if (!mask || *mask <= 0 || (*mask & (*mask + 1)) != 0) return std::nullopt;
    x = masked->a;
  }
  Expr further;  // a shift that is no constant
  if (const Binary* shifted = binary(BinaryOp::Shr)) {
    shift = constant_at(shifted->b, lane);
    const Broadcast* same = shifted->b.as<Broadcast>();
    if (!shift && same && mask) further = same->value;
    if (further.defined()) shift = 0;
    x = shifted->a;
  }
  const Cast* byte = x.as<Cast>();
  const Load* load = byte ? byte->value.as<Load>() : nullptr;
  // A byte that becomes another byte wraps.
  if (!load || !shift || *shift < 0 || load->dtype.bits != kByte || byte->dtype.bits <= kByte)
    return std::nullopt;
  const bool is_signed = load->dtype.is_int();
  if (!load->dtype.is_uint() && !(is_signed && !mask && *shift == 0)) return std::nullopt;
  r.bits = mask ? std::bit_width(static_cast<uint64_t>(*mask)) : kByte - static_cast<int>(*shift);
  if (r.bits < 1 || r.bits + *shift > kByte) return std::nullopt;
  if (further.defined()) {
    const Interval by = range(further);
    if (by.min < 0 || by.max + r.bits > kByte) return std::nullopt;
  }
  value(byte->value, lane);
  const WordPart* part = word_of({byte->value, lane, rounding_});
  if (!part) return std::nullopt;
  r.word = {part->word, kAtom};
  if (further.defined()) r.word = infix(r.word, ">>", value(further), kShift);
  r.shift = part->shift + static_cast<int>(*shift);
  r.is_signed = is_signed;
  return r;
}

// The zero is added to the exponent's number, and to what a signed number is without its sign.
Text KernelWriter::zero_of(const FewBits& x, int64_t exponent) {
  const int64_t most = exponent + (x.is_signed ? int64_t{1} << (x.bits - 1) : 0);
  if (!x.zero.defined()) return float_literal(f32, static_cast<double>(most));
  if (const int64_t* zero = as_int(x.zero))
    return float_literal(f32, static_cast<double>(most + *zero));
  return infix(float_literal(f32, static_cast<double>(most)), "+", integer_as_f32(x.zero, 0), kSum);
}

std::optional<Text> KernelWriter::few_bits_as_f32(const Expr& e, int lane) {
  constexpr int64_t kExponent = int64_t{1} << 23, kMost = int64_t{1} << 22;
  const std::optional<FewBits> x = few_bits(e, lane);
  const Interval values = range(e);
  if (!x || values.min < -kMost || values.max > kMost) return std::nullopt;
  Text word = x->word;
  if (x->is_signed) word = infix(word, "^", {hexadecimal(twice(0x8080)), kAtom}, kBitXor);
  const Text zero = zero_of(*x, kExponent);
  if (x->bits == kByte && x->shift % kByte == 0) {
    const Text place{std::to_string(x->shift / kByte), kAtom};
    return Text{prelude_.use("f32_of_byte") + "(" + word.s + ", " + place.s + ", " + zero.s + ")",
                kAtom};
  }
  if (x->shift > 0) word = infix(word, ">>", {std::to_string(x->shift), kAtom}, kShift);
  const uint32_t mask = (uint32_t{1} << x->bits) - 1;
  return Text{
      prelude_.use("f32_of_bits") + "(" + word.s + ", " + hexadecimal(mask) + ", " + zero.s + ")",
      kAtom};
}

// (number - zero) * scale of a 16-bit float, where all lanes have one scale.
std::optional<Text> KernelWriter::scaled_few_bits(const Binary& b, DataType t, int lane) {
  const Expr *number = &b.a, *scale = &b.b;
  if (b.op != BinaryOp::Mul) return std::nullopt;
  if (!scale->as<Broadcast>()) std::swap(number, scale);
  const Cast* cast = number->as<Cast>();
  if (!scale->as<Broadcast>() || !cast) return std::nullopt;
  const std::optional<FewBits> x = few_bits(cast->value, lane);
  // The numbers behind the exponent, and 2^e + zero, must be floats of the type, and so their difference.
  const int most_bits = t == bf16 ? 7 : 10;
  const int64_t exponent = int64_t{1} << most_bits;
  const Interval values = range(cast->value);
  if (!x || x->is_signed || x->bits > most_bits || values.min < -exponent || values.max > exponent)
    return std::nullopt;
  if (x->zero.defined()) {
    const Interval zero = range(x->zero);
    if (zero.min < -exponent || zero.max > exponent) return std::nullopt;
  }
  const int shift = x->shift % 16;
  Text bits = x->word;
  if (shift > 0) bits = infix(bits, ">>", {std::to_string(shift), kAtom}, kShift);
  const uint32_t mask = twice((uint32_t{1} << x->bits) - 1);
  const std::string type = to_string(t);
  const Text zero = ops_.narrow(t, zero_of(*x, exponent));
  const std::string pair = prelude_.use("scaled_bits_" + type) + "(" + bits.s + ", " +
                           hexadecimal(mask) + ", " + zero.s + ", " + value(*scale).s + ")";
  return call(prelude_.use(x->shift < 16 ? "low16" : "high16"), {pair, kAtom});
}

}  // namespace heddle::cuda
