// The transposed convolution as a gather:
//
//   out[t - before] = sum over taps r with t = i * stride + r * dilation of x[i] * w[r]
//
// With t = q * stride + phase and no dilation, only the taps r = phase + stride * m contribute, and
// they read x[q - m]. So each phase is a small convolution of its own with all products useful:
//
//   phases[q, phase] = sum over m of x[q - m] * w[phase + stride * m]
//   out[o] = phases[(o + before) / stride, (o + before) % stride]
//
// x is padded so that q - m always exists, w so that phase + stride * m does. A dilation spreads
// the taps over the phases unevenly; it is written into the weight as zeros between its taps.
#include <utility>

#include "heddle/ops/conv.h"
#include "ops/contraction.h"
#include "ops/pad.h"
#include "ops/window.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

struct Geometry {
  int64_t out = 0;                ///< extent of the result
  int64_t first = 0;              ///< the least q
  int64_t quotients = 1;          ///< number of values of q
  int64_t taps = 1;               ///< taps of a phase
  int64_t before = 0, after = 0;  ///< padding of x
};

Geometry geometry_of(int64_t in, int64_t kernel, int64_t stride, int64_t before, int64_t out) {
  Geometry g;
  g.out = out;
  g.first = before / stride;
  g.quotients = (before + out - 1) / stride - g.first + 1;
  g.taps = (kernel + stride - 1) / stride;
  g.before = std::max<int64_t>(0, g.taps - 1 - g.first);
  g.after = std::max<int64_t>(0, g.first + g.quotients - in);
  return g;
}

/// The weight with zeros between its taps (dilation) and after them (up to `lengths`).
Tensor spread_weight(const Call& call, const Tensor& w, int first, const Dims& dilation,
                     const Dims& lengths) {
  Dims dims = w.extents();
  bool same = true;
  for (size_t d = 0; d < lengths.size(); ++d) {
    int64_t& extent = dims[static_cast<size_t>(first) + d];
    same = same && extent == lengths[d] && dilation[d] == 1;
    extent = lengths[d];
  }
  if (same) return w;
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        Expr exists;
        const auto require = [&](Expr c) {
          exists = exists.defined() ? heddle::logical_and(exists, c) : c;
        };
        for (size_t d = 0; d < lengths.size(); ++d) {
          Expr& index = at[static_cast<size_t>(first) + d];
          const int64_t taps = w.extent(first + static_cast<int>(d));
          if (lengths[d] > (taps - 1) * dilation[d] + 1) require(index <= (taps - 1) * dilation[d]);
          if (dilation[d] == 1) continue;
          require(floormod(index, dilation[d]) == 0);
          index = floordiv(index, dilation[d]);
        }
        return select(exists, w.at(std::move(at)), make_const(w.dtype(), 0));
      },
      std::string(call.op) + "_weight", "pad", call.where);
}

class Transposed {
 public:
  Transposed(const Call& call, int n, const Tensor& x, const Tensor& w, const ConvTranspose& conv)
      : call_(call), conv_(conv), dims_(conv.layout, n), x_(x), w_(w) {
    impl::check_rank(call, x, "x", n + 2, n + 2);
    impl::check_rank(call, w, "weight", n + 2, n + 2);
    first_tap_ = conv.layout == NCHW ? 2 : 0;
    channels_ = x.extent(dims_.channel);
    per_group_ = conv.layout == NCHW ? w.extent(1) : w.extent(n);
    check_channels(conv.layout == NCHW ? w.extent(0) : w.extent(n + 1));
    plan();
  }

  Tensor declare(const Tensor& bias) const {
    const impl::ContractionTypes types = impl::contraction_types(call_, x_, w_, conv_.precision);
    Dims before, after;
    for (const Geometry& g : geometry_) {
      before.push_back(g.before);
      after.push_back(g.after);
    }
    const Tensor padded =
        impl::pad_constant(call_, x_, dims_.arrange<int64_t>(0, 0, before),
                           dims_.arrange<int64_t>(0, 0, after), make_const(x_.dtype(), 0));
    const Tensor weight = spread_weight(call_, w_, first_tap_, window_.dilation, lengths_);
    const Tensor phases = declare_phases(padded, weight, types);
    return impl::finish_contraction(call_, interleave(phases), bias, dims_.channel, types);
  }

 private:
  void check_channels(int64_t weight_channels) const {
    const int64_t groups = conv_.groups;
    if (groups < 1 || channels_ % groups != 0)
      impl::fail(call_, std::to_string(channels_) + " input channels cannot be split into " +
                            std::to_string(groups) + " groups");
    if (weight_channels != channels_)
      impl::fail(call_,
                 "'weight' " + impl::text(w_.extents()) + " takes " +
                     std::to_string(weight_channels) + " input channels, but 'x' " +
                     impl::text(x_.extents()) + " has " + std::to_string(channels_),
                 "the weight is (C, K / groups, R, S), or (R, S, K / groups, C) for ChannelsLast");
  }

  void plan() {
    const int n = dims_.n;
    window_ = impl::window_of(call_, n, conv_.stride, conv_.padding, conv_.dilation);
    const Dims extra = impl::per_dimension(call_, "output_padding", conv_.output_padding, n, 0);
    const Dims in = dims_.spatial_dims(x_);
    for (size_t d = 0; d < in.size(); ++d) {
      const int64_t stride = window_.stride[d];
      const int64_t reach =
          window_.dilation[d] * (w_.extent(first_tap_ + static_cast<int>(d)) - 1) + 1;
      const int64_t out =
          (in[d] - 1) * stride + reach + extra[d] - window_.before[d] - window_.after[d];
      if (extra[d] < 0 || extra[d] >= std::max(stride, window_.dilation[d]))
        impl::fail(call_, "'output_padding' " + impl::text(extra) +
                              " is not in [0, max(stride, dilation))");
      if (out < 1)
        impl::fail(call_, "nothing is left of spatial dimension " + std::to_string(d),
                   "the padding takes off more than there is");
      geometry_.push_back(geometry_of(in[d], reach, stride, window_.before[d], out));
      // A stride of 1 has one phase, and its dimension is left out.
      lengths_.push_back(stride == 1 ? reach : geometry_.back().taps * stride);
    }
  }

  /// The dimensions (N, q0, phase0, q1, phase1, ..., K): vectors of filters lie one after another. A
  /// dimension with stride 1 has no phase. Without strides it is the result, in its own layout.
  Tensor declare_phases(const Tensor& padded, const Tensor& weight,
                        const impl::ContractionTypes& types) const {
    Dims spatials, taps;
    for (size_t d = 0; d < geometry_.size(); ++d) {
      spatials.push_back(geometry_[d].quotients);
      if (window_.stride[d] > 1) spatials.push_back(window_.stride[d]);
      taps.push_back(geometry_[d].taps);
    }
    const Axis c = reduce_axis(channels_ / conv_.groups, "rc", call_.where);
    const std::vector<Axis> m = impl::reduce_axes(call_, taps, "r");
    const bool first = conv_.layout == NCHW;
    const size_t of_filter = filter_of_phases();
    const auto body = [&](const std::vector<Axis>& i) {
      const Axis& k = i[of_filter];
      const bool one_group = conv_.groups == 1;
      const Expr channel = one_group ? Expr(c) : floordiv(k, per_group_) * c->extent + c;
      const Expr filter = one_group ? Expr(k) : floormod(k, per_group_);
      std::vector<Expr> at, tap;
      size_t next = of_filter == 1 ? 2 : 1;
      for (size_t d = 0; d < geometry_.size(); ++d) {
        const Geometry& g = geometry_[d];
        at.push_back(i[next++] - m[d] + (g.first + g.before));
        tap.push_back(window_.stride[d] > 1 ? i[next++] + m[d] * window_.stride[d] : Expr(m[d]));
      }
      std::vector<Expr> at_w;
      if (first) at_w = {channel, filter};
      at_w.insert(at_w.end(), tap.begin(), tap.end());
      if (!first) at_w.insert(at_w.end(), {filter, channel});
      std::vector<Axis> over{c};
      over.insert(over.end(), m.begin(), m.end());
      return sum_in(
          types.accumulate,
          impl::product_in(types.accumulate, padded.at(dims_.arrange<Expr>(i[0], channel, at)),
                           weight.at(std::move(at_w))),
          over);
    };
    return compute(impl::to_shape(of_phases(x_.extent(0), per_group_ * conv_.groups, spatials)),
                   body, call_.op, call_.op, call_.where);
  }

  bool strided() const {
    return std::any_of(window_.stride.begin(), window_.stride.end(),
                       [](int64_t stride) { return stride > 1; });
  }
  /// The position of the filters among the dimensions of the phases.
  size_t filter_of_phases() const {
    if (conv_.layout == NCHW && !strided()) return 1;
    const auto phases = std::count_if(window_.stride.begin(), window_.stride.end(),
                                      [](int64_t stride) { return stride > 1; });
    return geometry_.size() + static_cast<size_t>(phases) + 1;
  }
  template <class T>
  std::vector<T> of_phases(const T& batch, const T& filter, const std::vector<T>& others) const {
    std::vector<T> result{batch};
    result.insert(result.end(), others.begin(), others.end());
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(filter_of_phases()), filter);
    return result;
  }

  Tensor interleave(const Tensor& phases) const {
    Dims out;
    for (const Geometry& g : geometry_) out.push_back(g.out);
    if (!strided()) return phases;  // without strides q is the position itself
    return compute(
        impl::to_shape(dims_.arrange(x_.extent(0), per_group_ * conv_.groups, out)),
        [&](const std::vector<Axis>& i) {
          std::vector<Expr> at;
          for (size_t d = 0; d < geometry_.size(); ++d) {
            const int64_t stride = window_.stride[d];
            const int64_t shift = window_.before[d] - geometry_[d].first * stride;
            const Expr t = i[static_cast<size_t>(dims_.spatial(static_cast<int>(d)))] + shift;
            at.push_back(floordiv(t, stride));
            if (stride > 1) at.push_back(floormod(t, stride));
          }
          return phases.at(of_phases<Expr>(i[0], i[static_cast<size_t>(dims_.channel)], at));
        },
        std::string(call_.op) + "_interleave", "interleave", call_.where);
  }

  const Call& call_;
  const ConvTranspose& conv_;
  const impl::Dimensions dims_;
  const Tensor &x_, &w_;
  int first_tap_ = 0;
  int64_t channels_ = 0, per_group_ = 0;
  impl::Window window_;
  std::vector<Geometry> geometry_;
  Dims lengths_;  ///< extents of the weight, with dilation and rounded up to whole phases
};

}  // namespace

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const ConvTranspose& attributes,
                        const Tensor& bias, Where where) {
  const Call call{"conv_transpose1d", where};
  return Transposed(call, 1, x, weight, attributes).declare(bias);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const ConvTranspose& attributes,
                        const Tensor& bias, Where where) {
  const Call call{"conv_transpose2d", where};
  return Transposed(call, 2, x, weight, attributes).declare(bias);
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const ConvTranspose& attributes,
                        const Tensor& bias, Where where) {
  const Call call{"conv_transpose3d", where};
  return Transposed(call, 3, x, weight, attributes).declare(bias);
}

}  // namespace heddle::ops
