// Movement of elements, and element-wise chains.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "heddle/ops/ops.h"
#include "selftest/drawer.h"

namespace heddle::selftest {

void Drawer::movement() {
  std::vector<int64_t> s = small_shape();
  DataType t = one_of<DataType>({f32, f32, f64, i32, u8, i8, f16, bf16});
  Tensor x = input(s, t, "X");
  std::string text;
  for (int i = static_cast<int>(pick(1, 2)); i > 0; --i) {
    switch (pick(0, 6)) {
      case 0: {
        std::vector<int> perm(x.rank());
        for (int d = 0; d < x.rank(); ++d) perm[d] = d;
        for (int d = x.rank() - 1; d > 0; --d) std::swap(perm[d], perm[pick(0, d)]);
        x = ops::transpose(x, perm);
        text += "transpose ";
        break;
      }
      case 1: {
        std::vector<int64_t> before(x.rank()), after(x.rank());
        for (int64_t& p : before) p = pick(0, 2);
        for (int64_t& p : after) p = pick(0, 2);
        x = ops::pad(x, before, after);
        text += "pad ";
        break;
      }
      case 2:
        x = ops::flip(x, {static_cast<int>(pick(0, x.rank() - 1))});
        text += "flip ";
        break;
      case 3:
        x = ops::reshape(x, {-1});
        text += "flatten ";
        break;
      case 4: {
        int axis = static_cast<int>(pick(0, x.rank() - 1));
        x = ops::concat({x, x}, axis);
        text += "concat ";
        break;
      }
      case 5:
        x = ops::cast(x, one_of<DataType>({f32, f64, i32}));
        text += "cast ";
        break;
      case 6:
        x = ops::add(x, x);
        text += "double ";
        break;
    }
  }
  done(text, {x});
}

void Drawer::chain() {
  std::vector<int64_t> s = small_shape(3);
  DataType t = float_type();
  Tensor x = input(s, t, "X"), y = input(flip() ? s : std::vector<int64_t>{s.back()}, t, "Y");
  Tensor z = ops::mul(x, y);
  std::string text = "mul ";
  std::vector<Tensor> outs;
  const auto step = [&](const Tensor& to, const char* what) {
    z = to;
    text += what;
  };
  for (int i = static_cast<int>(pick(1, 4)); i > 0; --i) {
    switch (pick(0, 6)) {
      case 0: step(ops::tanh(z), "tanh "); break;
      case 1: step(ops::sigmoid(ops::exp(z)), "exp sigmoid "); break;
      case 2: step(ops::sub(z, y), "sub "); break;
      case 3: step(ops::silu(z), "silu "); break;
      case 4: step(ops::gelu_tanh(z), "gelu_tanh "); break;
      case 5: step(ops::clip(z, -0.5, 0.75), "clip "); break;
      case 6:
        if (outs.empty() && i > 1) outs.push_back(z);
        step(ops::abs(z), "(out) ");
        break;
    }
  }
  outs.push_back(z);
  done(text, outs);
}

// Rows are of 16 bytes or a multiple, as kernels for GPUs store them.
void Drawer::rows_at_places() {
  std::vector<int64_t> shape = small_shape(2);
  const size_t named = shape.size();
  p_.places = input(shape, i64, "places");
  const int64_t points = p_.places.size();
  p_.rows = pick(std::max<int64_t>(1, points - 3), points + 5);
  if (flip()) shape.push_back(pick(1, 3));
  shape.push_back(8 * pick(1, 5));
  const Tensor x = epilogue(input(shape, one_of<DataType>({f32, f64, bf16}), "X"));
  const Tensor y = compute(
      x.shape(),
      [&](const std::vector<Axis>& at) {
        const std::vector<Expr> q(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(named));
        return select(p_.places.at(q) >= 0, x(at), make_const(x.dtype(), 0));
      },
      "rows");
  done("rows at places of " + std::to_string(p_.rows), {y});
}

}  // namespace heddle::selftest
