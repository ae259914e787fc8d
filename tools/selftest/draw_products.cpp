// Products of matrices, alone and feeding each other.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "heddle/ops/ops.h"
#include "selftest/drawer.h"

namespace heddle::selftest {

// Few results of a sum that is long enough to be cut into parts (the rule split_k).
void Drawer::long_sum() {
  const int64_t m = pick(1, 6), n = one_of<int64_t>({1, 3, 8, 17}), k = pick(1024, 1280);
  const bool ta = flip(), tb = flip();
  const DataType t = one_of<DataType>({f32, f32, f64, i32, bf16});
  const Tensor a = ta ? input({k, m}, t, "A") : input({m, k}, t, "A");
  const Tensor b = tb ? input({n, k}, t, "B", flip()) : input({k, n}, t, "B", flip());
  p_.reduce_length = k;
  done("long sum", {epilogue(ops::matmul(a, b, ta, tb))});
}

void Drawer::contraction() {
  if (pick(0, 2) == 0) return long_sum();
  int64_t m = extent(), n = extent(), k = extent() * (pick(0, 3) == 0 ? 5 : 1);
  bool ta = flip(), tb = flip(), batch = pick(0, 3) == 0;
  DataType t = one_of<DataType>({f32, f32, f32, f32, f64, i32, i8, u8, i16, bf16, f16});
  std::vector<int64_t> sa = ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k};
  std::vector<int64_t> sb = tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
  if (batch) {
    int64_t b = pick(1, 5);
    sa.insert(sa.begin(), b);
    sb.insert(sb.begin(), b);
  }
  // Operands are inputs, or stages that only change indices.
  auto operand = [&](std::vector<int64_t> shape, const char* name, bool constant) {
    if (pick(0, 3) > 0) return input(shape, t, name, constant);
    std::swap(shape[shape.size() - 2], shape.back());
    std::vector<int> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[shape.size() - 2], order.back());
    p_.text += "transposed ";
    return ops::transpose(input(shape, t, name, constant), order);
  };
  Tensor a = operand(sa, "A", false), b = operand(sb, "B", flip());
  p_.reduce_length = k;
  Tensor c = ops::matmul(a, b, ta, tb);
  done("matmul(" + std::string(ta ? "T" : "N") + (tb ? "T)" : "N)"), {epilogue(c)});
}

// Products of the types of matrix units, with sizes around those of their tiles. Some are deep
// enough to be cut along the reduction.
void Drawer::matrix_unit() {
  if (flip()) return whole_rows();
  const std::vector<int64_t> around{2, 3, 7, 8, 15, 16, 17, 31, 32, 48, 65, 72, 100, 129};
  const bool deep = pick(0, 3) == 0;
  const int64_t m = deep ? pick(2, 20) : one_of(around), n = deep ? pick(2, 20) : one_of(around);
  const int64_t k = deep ? one_of<int64_t>({144, 272, 512, 520, 639, 700}) : one_of(around);
  const bool ta = flip(), tb = flip();
  std::vector<int64_t> sa = ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k};
  std::vector<int64_t> sb = tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
  if (pick(0, 3) == 0) {
    sa.insert(sa.begin(), pick(1, 3));
    sb.insert(sb.begin(), flip() ? sa[0] : 1);
  }
  const DataType t = one_of<DataType>({bf16, f16, i8, u8, f32});
  const bool mixed = t.bits == 8 && pick(0, 3) == 0;
  p_.allow_tf32 = t == f32;
  p_.reduce_length = k;
  Tensor a = input(sa, t, "A"), b = input(sb, !mixed ? t : t == i8 ? u8 : i8, "B", flip());
  done("product(" + std::string(ta ? "T" : "N") + (tb ? "T)" : "N)") +
           (p_.allow_tf32 ? " tf32" : ""),
       {epilogue(ops::matmul(a, b, ta, tb))});
}

// Products of which TMA may load the tiles: most rows in memory are multiples of 16 bytes. For
// types of other sizes than 16 bits, most operands lie along the depth.
void Drawer::whole_rows() {
  const DataType t = one_of<DataType>({bf16, f16, i8, u8, f32, f8e4m3, f8e5m2, f8e4m3});
  const bool along = t.bytes() != 2 && pick(0, 3) > 0, uneven = pick(0, 4) == 0;
  const int64_t m = one_of<int64_t>({40, 72, 104, 136, 200}),
                n = one_of<int64_t>({32, 64, 72, 104, 136}) + (uneven ? pick(1, 7) : 0),
                k = one_of<int64_t>({80, 144, 208, 272}) + (uneven ? pick(1, 7) : 0);
  const bool ta = !along && flip(), tb = along || flip();
  std::vector<int64_t> sa = ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k};
  std::vector<int64_t> sb = tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
  if (pick(0, 3) == 0) {
    sa.insert(sa.begin(), pick(2, 3));
    sb.insert(sb.begin(), sa[0]);
  }
  DataType other = t;
  if (t.bits == 8 && pick(0, 3) == 0)
    other = t.is_float8() ? (t == f8e4m3 ? f8e5m2 : f8e4m3) : t == i8 ? u8 : i8;
  p_.allow_tf32 = t == f32;
  p_.reduce_length = k;
  ops::Precision precision;
  if (t.is_float8() && pick(0, 3) > 0) precision.output = one_of<DataType>({f32, bf16, f16});
  const Tensor a = input(sa, t, "A"), b = input(sb, other, "B", pick(0, 3) == 0);
  const Tensor c = ops::matmul(a, b, ta, tb, precision);
  done("product of whole rows(" + std::string(ta ? "T" : "N") + (tb ? "T)" : "N)") +
           (p_.allow_tf32 ? " tf32" : ""),
       {c.dtype().is_float8() ? c : epilogue(c)});
}

// Products of products, whose rows may go through both together. The heads may be an inner
// dimension of operands.
void Drawer::attention() {
  if (pick(0, 3) == 0) return decoding();
  const int64_t l = one_of<int64_t>({1, 7, 8, 13, 24, 31, 50}), heads = pick(1, 4);
  const int64_t s = one_of<int64_t>({1, 6, 9, 16, 17, 40}), e = one_of<int64_t>({1, 5, 8, 16});
  const int64_t f = one_of<int64_t>({1, 7, 8, 16, 19, 40});
  const DataType t = one_of<DataType>({f32, f32, f32, f64, bf16});
  const bool batch = pick(0, 3) > 0, inside = flip();
  auto operand = [&](int64_t rows, int64_t cols, const char* name) {
    if (!batch) return input({rows, cols}, t, name);
    if (!inside) return input({heads, rows, cols}, t, name);
    return ops::transpose(input({rows, heads, cols}, t, name), {1, 0, 2});
  };
  const Tensor q = operand(l, e, "q"), k = operand(s, e, "k"), v = operand(s, f, "v");
  p_.reduce_length = e + s;
  if (pick(0, 2) == 0) {
    done("product of a product",
         {epilogue(ops::matmul(ops::relu(ops::matmul(q, k, false, true)), v))});
    return;
  }
  Tensor mask;
  const int64_t kind = pick(0, 3);
  if (kind == 0) mask = input({l, s}, t, "mask");
  if (kind == 1) {
    mask = compute({l, s}, [](const std::vector<Axis>& i) -> Expr { return i[1] <= i[0]; });
    p_.text += " causal";
  }
  done("attention", {epilogue(ops::scaled_dot_product_attention(q, k, v, mask))});
}

// Few rows for many keys, in groups of heads that share keys and values.
void Drawer::decoding() {
  const int64_t rows = pick(1, 4), heads = pick(1, 3), group = pick(1, 4);
  const int64_t keys = one_of<int64_t>({128, 130, 200, 257, 384, 600});
  const int64_t e = one_of<int64_t>({8, 16, 40, 64}), f = one_of<int64_t>({7, 16, 48, 64});
  const DataType t = one_of<DataType>({bf16, f16});
  const Tensor q = input({heads, group, rows, e}, t, "q"), k = input({heads, 1, keys, e}, t, "k"),
               v = input({heads, 1, keys, f}, t, "v");
  p_.reduce_length = e + keys;
  done("attention of few rows", {epilogue(ops::scaled_dot_product_attention(q, k, v))});
}

// Contractions that feed each other: groups, attached stages and shared producers in one graph.
void Drawer::layers() {
  int64_t m = extent(), n = extent(), e = pick(1, 20);
  if (flip()) {
    int64_t b = pick(1, 3);
    Tensor q = input({b, m, e}, f32, "Q"), k = input({b, n, e}, f32, "K"),
           v = input({b, n, e}, f32, "V");
    p_.reduce_length = std::max(n, e);
    return done("attention", {ops::scaled_dot_product_attention(q, k, v)});
  }
  Tensor x = input({m, e}, f32, "X"), w1 = input({e, n}, f32, "W1", flip()),
         w2 = input({n, e}, f32, "W2", flip());
  Tensor h = ops::gelu(ops::matmul(x, w1));
  p_.reduce_length = std::max(n, e);
  // A row of two nearly equal sums has almost no variance. Without the epsilon, their rounding
  // errors would be divided by it.
  done("mlp", {ops::layer_norm(ops::add(x, ops::matmul(h, w2)), {}, {}, -1, 0.1)});
}

}  // namespace heddle::selftest
