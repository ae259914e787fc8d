// Convolutions, pooling, and windows over affine indices.
#include <algorithm>
#include <string>
#include <vector>

#include "heddle/ops/ops.h"
#include "selftest/drawer.h"

namespace heddle::selftest {

void Drawer::convolution() {
  bool nhwc = flip();
  ops::Conv at;
  at.layout = nhwc ? ops::Layout::ChannelsLast : ops::Layout::ChannelsFirst;
  int64_t r = pick(1, 3), s = pick(1, 3), n = pick(1, 2);
  at.groups = one_of<int64_t>({1, 1, 1, 2, 3});
  int64_t c = at.groups * pick(1, 9), k = at.groups * pick(1, 18);
  at.stride = {pick(1, 2), pick(1, 2)};
  at.padding = {pick(0, 2), pick(0, 2)};
  at.dilation = {pick(1, 2), pick(1, 2)};
  const int64_t kind = pick(0, 3);
  if (kind == 0) {  // a convolution for Winograd
    r = s = 3;
    at.stride = at.dilation = {1, 1};
    k = k / at.groups, c = c / at.groups, at.groups = 1;
  } else if (kind == 1 && nhwc) {  // a product of matrices
    r = s = 1;
    at.stride = {1, 1};
    at.padding = {0, 0};
  } else if (kind == 3 && nhwc && at.groups == 1) {
    return separable();
  }
  if (pick(0, 4) == 0) {  // enough filters to fill vectors, and channels to copy
    c = pick(8, 20), k = pick(16, 40), at.groups = 1;
  }
  DataType t = pick(0, 4) == 0 ? one_of<DataType>({i8, u8, bf16}) : float_type();
  if (pick(0, 2) == 0) {  // types of matrix units, with whole vectors or partial ones
    at.groups = one_of<int64_t>({1, 1, 1, 2, 4});
    c = at.groups * one_of<int64_t>({1, 2, 3, 6, 8, 16, 24, 64});
    k = at.groups * one_of<int64_t>({3, 4, 8, 16, 24, 33});
    t = one_of<DataType>({bf16, f16, f16, i8, u8, f32});
    p_.allow_tf32 = t == f32;
  }
  int64_t most = 14;
  if (nhwc && pick(0, 5) == 0) {  // windows that TMA loads: whole rows of 128 bytes
    at.groups = 1, c = 64 * pick(1, 2), k = one_of<int64_t>({8, 40, 64, 72});
    t = flip() ? bf16 : f16;
    p_.allow_tf32 = false;
    most = 10;
  }
  int64_t h = pick(1, most) + (r - 1) * at.dilation[0],
          w = pick(1, most) + (s - 1) * at.dilation[1];
  p_.reduce_length = r * s * c / at.groups;
  Tensor x = nhwc ? input({n, h, w, c}, t, "X") : input({n, c, h, w}, t, "X");
  Tensor wt = nhwc ? input({r, s, c / at.groups, k}, t, "W", flip())
                   : input({k, c / at.groups, r, s}, t, "W", flip());
  Tensor y = ops::conv2d(x, wt, at, flip() ? input({k}, t, "b") : Tensor());
  done(std::string("conv2d ") + (nhwc ? "nhwc groups=" : "nchw groups=") +
           std::to_string(at.groups) + " stride=" + std::to_string(at.stride[0]) + "," +
           std::to_string(at.stride[1]) + " pad=" + std::to_string(at.padding[0]) + "," +
           std::to_string(at.padding[1]),
       {flip() ? ops::relu(y) : y});
}

// A depthwise convolution between pointwise ones, with what follows each of them.
void Drawer::separable() {
  const int64_t n = pick(1, 2), h = pick(3, 14), w = pick(3, 14), k = pick(8, 40);
  const int64_t c = pick(3, 20), r = one_of<int64_t>({3, 3, 5});
  ops::Conv at{.layout = ops::Layout::ChannelsLast};
  Tensor y = input({n, h, w, c}, f32, "X");
  p_.reduce_length = c * r * r;
  if (pick(0, 3) > 0) {
    y = epilogue(ops::conv2d(y, input({1, 1, c, k}, f32, "W1", flip()), at));
    p_.text += "pointwise ";
  }
  at.stride = {pick(1, 2), pick(1, 2)};
  at.padding = {pick(0, 1) * (r / 2)};
  if (std::min(h, w) < r) at.padding = {r / 2};
  y = epilogue(ops::depthwise_conv2d(y, input({r, r, 1, y.extent(3)}, f32, "D", flip()), at));
  if (flip()) {
    p_.reduce_length *= y.extent(3);
    const Tensor last = input({1, 1, y.extent(3), pick(8, 24)}, f32, "W2", flip());
    p_.text += "pointwise ";
    y = epilogue(ops::conv2d(y, last, {.layout = ops::Layout::ChannelsLast}));
  }
  done("depthwise ", {y});
}

void Drawer::pooling() {
  ops::Pool at;
  at.kernel = {pick(1, 3), pick(1, 3)};
  at.stride = {pick(1, 2), pick(1, 2)};
  at.layout = flip() ? ops::Layout::ChannelsLast : ops::Layout::ChannelsFirst;
  int64_t n = pick(1, 2), c = extent(), h = pick(3, 15), w = pick(3, 15);
  bool last = at.layout == ops::Layout::ChannelsLast;
  Tensor x = last ? input({n, h, w, c}, f32, "X") : input({n, c, h, w}, f32, "X");
  p_.reduce_length = at.kernel[0] * at.kernel[1];
  if (flip()) return done("max_pool", {ops::max_pool(x, at)});
  done("avg_pool", {ops::avg_pool(x, at)});
}

// A window over an affine index, with unusual reuse.
void Drawer::affine() {
  int64_t n = pick(3, 40), k = pick(1, 7), a = pick(1, 3), b = pick(1, 2), m = pick(1, 20);
  int64_t len = a * (n - 1) + b * (k - 1) + 1;
  Tensor x = input({m, len}, f32, "X"), w = input({k}, f32, "w");
  Axis r = reduce_axis(Expr(k), "r");
  p_.reduce_length = k;
  if (flip()) {
    return done("window",
                {compute(
                    {Expr(m), Expr(n)},
                    [&](Axis i, Axis j) { return sum(x(i, j * Expr(a) + r * Expr(b)) * w(r), r); },
                    "win")});
  }
  done("triangle", {compute(
                       {Expr(m), Expr(len)},
                       [&](Axis i, Axis j) { return select(j <= i, x(i, j), Expr(0.f)); }, "tri")});
}

}  // namespace heddle::selftest
