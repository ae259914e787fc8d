// Random numbers. A seed gives the same numbers in every call; without one it follows from the name of
// the result, so that two nodes differ. Iterations of a loop differ in both cases.
#include <bit>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/random.h"
#include "onnx/node_scope.h"
#include "support/hashing/hash.h"

namespace heddle::onnx {
namespace {

uint64_t seed_of(const NodeScope& s) {
  const uint64_t turn = s.turn();
  const uint64_t seed =
      s.has_attribute("seed")
          ? std::bit_cast<uint32_t>(static_cast<float>(s.number("seed")))
          : hash_string(s.node().outputs.empty() ? s.node().name : s.node().outputs[0]);
  return turn == 0 ? seed : hash_combine(seed, turn);
}

/// The type that the node asks for, or that of its input.
DataType type_of(const NodeScope& s) {
  if (s.has_attribute("dtype"))
    return dtype_of(static_cast<int32_t>(s.integer("dtype")), "attribute 'dtype'");
  return s.count() > 0 ? s.dtype(0) : f32;
}

Extents shape_of(const NodeScope& s) {
  const Extents shape = s.count() > 0 ? s.shape(0) : s.integers("shape");
  int64_t size = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size) || size > (int64_t{1} << 40))
      s.fail("attribute 'shape' is " + shape_text(shape));
  }
  return shape;
}

Value uniform(const NodeScope& s) {
  const Extents shape = shape_of(s);
  return ops::random_uniform(shape, seed_of(s), s.number("low", 0.0), s.number("high", 1.0),
                             type_of(s), s.at());
}
std::vector<Value> random_uniform(const NodeScope& s) { return {uniform(s)}; }

std::vector<Value> random_normal(const NodeScope& s) {
  return {ops::random_normal(shape_of(s), seed_of(s), s.number("mean", 0.0), s.number("scale", 1.0),
                             type_of(s), s.at())};
}

// True with the probability that the input is.
std::vector<Value> bernoulli(const NodeScope& s) {
  const DataType type = type_of(s), given = s.dtype(0);
  const Tensor u = ops::random_uniform(s.shape(0), seed_of(s), 0, 1, f32, s.at());
  return {ops::elementwise(
      "bernoulli", {s.tensor(0), u},
      [&](const std::vector<Expr>& v) {
        const DataType wide = given == f64 ? f64 : f32;
        return cast(type, cast(wide, v[1]) < cast(wide, v[0]));
      },
      s.at())};
}

std::vector<Value> multinomial(const NodeScope& s) {
  const DataType type = dtype_of(static_cast<int32_t>(s.integer("dtype", 6)), "attribute 'dtype'");
  return {ops::random_choice(s.tensor(0), s.integer("sample_size", 1), seed_of(s), type, s.at())};
}

}  // namespace

std::vector<OperatorEntry> random_operators() {
  return {{"Bernoulli", bernoulli},          {"Multinomial", multinomial},
          {"RandomNormal", random_normal},   {"RandomNormalLike", random_normal},
          {"RandomUniform", random_uniform}, {"RandomUniformLike", random_uniform}};
}

}  // namespace heddle::onnx
