// Convolutions. Weights are constant: Heddle and oneDNN both pack them ahead of time.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "heddle/ops/conv.h"
#include "peers/peer_halide.h"
#include "subjects/image_parts.h"

namespace heddle::cli {
namespace {

peers::OnednnConvSpec spec_of(const Arguments& a) {
  peers::OnednnConvSpec spec;
  spec.n = a["n"];
  spec.c = a["c"];
  spec.h = a["h"];
  spec.w = a["w"];
  spec.k = a["k"];
  spec.r = a["r"];
  spec.s = a["s"];
  spec.stride = a["stride"];
  spec.pad = a["pad"];
  spec.dilation = a["dilation"];
  spec.groups = a["groups"];
  return spec;
}

ops::Conv attributes(const Arguments& a) {
  ops::Conv conv;
  conv.stride = {a["stride"]};
  conv.padding = {a["pad"]};
  conv.dilation = {a["dilation"]};
  conv.groups = a["groups"];
  conv.layout = layout_of(a);
  return conv;
}

// Operations of a direct convolution, from the shape of its result.
double conv_flops(const Tensor& out, int64_t channels, int64_t taps) {
  double flops = 2.0 * static_cast<double>(channels * taps);
  for (const int64_t extent : out.extents()) flops *= static_cast<double>(extent);
  return flops;
}

// The image (1, H, W, C) with a border of zeros, which Halide's pipeline takes.
NDArray with_border(const NDArray& x, int64_t pad) {
  const int64_t h = x.extent(1), w = x.extent(2), c = x.extent(3);
  NDArray out = NDArray::zeros({1, h + 2 * pad, w + 2 * pad, c}, f32);
  for (int64_t i = 0; i < h; ++i) {
    const float* from = x.data<float>() + i * w * c;
    std::copy(from, from + w * c, out.data<float>() + ((i + pad) * (w + 2 * pad) + pad) * c);
  }
  return out;
}

void add_halide_conv(PeerSet& set, const peers::OnednnConvSpec& s, ops::Layout layout) {
  if (!set.halide() || layout != ops::NHWC || s.n != 1 || s.groups != 1 || s.dilation != 1) return;
  const NDArray image = set.keep(with_border(set.input(0), s.pad));
  const NDArray out = set.keep(NDArray::empty({1, s.out_h(), s.out_w(), s.k}, f32));
  const peers::HalideOp op =
      peers::halide_conv({s.c, s.h + 2 * s.pad, s.w + 2 * s.pad, s.k, s.r, s.s, s.stride},
                         set.threads(), image.data<float>(), set.f32(1), out.data<float>());
  if (op.run) {
    set.add({"halide", "Adams2019, border given", op.run, [out] { return out; }});
  } else {
    set.remark("halide: " + op.error);
  }
}

// The faster of oneDNN's own layout of images and the caller's. Without VNNI, oneDNN halves weights
// so that pairs of products do not saturate, which drops their last bit. It therefore gets weights
// twice as large, and half of its result is compared.
void add_int8_conv_peer(PeerSet& set, peers::OnednnConvSpec spec, ops::Layout layout) {
  const bool last = layout == ops::NHWC;
  const Extents shape = last ? Extents{spec.n, spec.out_h(), spec.out_w(), spec.k}
                             : Extents{spec.n, spec.k, spec.out_h(), spec.out_w()};
  using peers::OnednnType;
  const NDArray doubled = set.keep(NDArray::empty(set.input(1).shape(), i8));
  for (int64_t i = 0; i < doubled.size(); ++i) doubled.set(i, 2 * set.input(1).get(i));
  std::vector<PeerSet::Candidate> candidates;
  for (auto [how, note] : {std::pair{peers::OnednnLayout::kAny, "its own layout"},
                           std::pair{peers::OnednnLayout::kNhwc, "the same layout"}}) {
    spec.layout = how;
    const NDArray y = set.keep(NDArray::empty(shape, i32));
    candidates.push_back({note,
                          onednn_conv_of(spec, {OnednnType::kS8, OnednnType::kS8, OnednnType::kS32},
                                         last, set.input(0).data(), doubled.data(), y.data()),
                          y});
  }
  set.add_fastest_onednn(std::move(candidates), [](const NDArray& twice) {
    const NDArray y = NDArray::empty(twice.shape(), i32);
    for (int64_t i = 0; i < y.size(); ++i) y.set(i, twice.get(i) / 2);
    return y;
  });
}

Problem conv2d(const Arguments& a, DataType dtype) {
  const ops::Conv conv = attributes(a);
  const ops::Layout layout = conv.layout;
  const peers::OnednnConvSpec spec = spec_of(a);
  const int64_t group_channels = spec.c / spec.groups;
  Tensor x = placeholder(image_shape(a), dtype, "x");
  Tensor w =
      constant_placeholder(layout == ops::NHWC ? Shape{spec.r, spec.s, group_channels, spec.k}
                                               : Shape{spec.k, group_channels, spec.r, spec.s},
                           dtype, "weight");
  Problem p;
  p.inputs = {x, w};
  p.outputs = {ops::conv2d(x, w, conv)};
  p.flops = conv_flops(p.outputs[0], group_channels, spec.r * spec.s);
  if (dtype == i8) p.ranges = {{-30, 30}, {-30, 30}};  // limits of what oneDNN adds exactly
  p.peers = [spec, layout](PeerSet& set) {
    if (set.all_f32()) add_halide_conv(set, spec, layout);
    if (!set.onednn()) return;
    if (set.input(0).dtype() == i8) return add_int8_conv_peer(set, spec, layout);
    if (!set.all_f32()) return;
    add_conv_peers(set, spec, to_nchw(set.input(0), layout), to_oihw(set.input(1), layout), {},
                   [layout](const NDArray& y) { return from_nchw(y, layout); });
  };
  return p;
}

Problem depthwise_conv2d(const Arguments& a, DataType dtype) {
  ops::Conv conv;
  conv.stride = {a["stride"]};
  conv.padding = {a["pad"]};
  conv.dilation = {a["dilation"]};
  conv.layout = layout_of(a);
  const ops::Layout layout = conv.layout;
  const int64_t r = a["r"], out_channels = a["c"] * a["multiplier"];
  Tensor x = placeholder(image_shape(a), dtype, "x");
  Tensor w = constant_placeholder(
      layout == ops::NHWC ? Shape{r, r, 1, out_channels} : Shape{out_channels, 1, r, r}, dtype,
      "weight");
  peers::OnednnConvSpec spec;
  spec.n = a["n"];
  spec.c = spec.groups = a["c"];
  spec.h = a["h"];
  spec.w = a["w"];
  spec.k = out_channels;
  spec.r = spec.s = r;
  spec.stride = a["stride"];
  spec.pad = a["pad"];
  spec.dilation = a["dilation"];
  Problem p;
  p.inputs = {x, w};
  p.outputs = {ops::depthwise_conv2d(x, w, conv)};
  p.flops = conv_flops(p.outputs[0], 1, r * r);
  p.peers = [spec, layout](PeerSet& set) {
    if (!set.onednn() || !set.all_f32()) return;
    add_conv_peers(set, spec, to_nchw(set.input(0), layout), to_oihw(set.input(1), layout), {},
                   [layout](const NDArray& y) { return from_nchw(y, layout); });
  };
  return p;
}

// The image (N, C, W) with `pad` zeros at both ends. oneDNN gets a 2-d convolution of one row,
// whose padding would add rows too.
NDArray padded_rows(const NDArray& x, int64_t pad) {
  const int64_t rows = x.extent(0) * x.extent(1), width = x.extent(2);
  NDArray out = NDArray::zeros({x.extent(0), x.extent(1), 1, width + 2 * pad}, f32);
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = x.data<float>() + i * width;
    std::copy(from, from + width, out.data<float>() + i * (width + 2 * pad) + pad);
  }
  return out;
}

Problem conv1d(const Arguments& a, DataType dtype) {
  const ops::Conv conv = attributes(a);
  const int64_t n = a["n"], c = a["c"], w = a["w"], k = a["k"], r = a["r"], pad = a["pad"];
  const int64_t group_channels = c / a["groups"];
  const bool last = conv.layout == ops::NHWC;
  Tensor x = placeholder(last ? Shape{n, w, c} : Shape{n, c, w}, dtype, "x");
  Tensor weight = constant_placeholder(
      last ? Shape{r, group_channels, k} : Shape{k, group_channels, r}, dtype, "weight");
  peers::OnednnConvSpec spec;
  spec.n = n;
  spec.c = c;
  spec.w = w + 2 * pad;
  spec.k = k;
  spec.s = r;
  spec.stride = a["stride"];
  spec.dilation = a["dilation"];
  spec.groups = a["groups"];
  Problem p;
  p.inputs = {x, weight};
  p.outputs = {ops::conv1d(x, weight, conv)};
  p.flops = conv_flops(p.outputs[0], group_channels, r);
  p.peers = [spec, pad, last](PeerSet& set) {
    if (!set.onednn() || !set.all_f32()) return;
    const NDArray image = last ? permuted(set.input(0), {0, 2, 1}) : set.input(0);
    const NDArray filter = last ? permuted(set.input(1), {2, 1, 0}) : set.input(1);
    add_conv_peers(set, spec, padded_rows(image, pad), filter, {}, [spec, last](const NDArray& y) {
      const NDArray rows = y.view({spec.n, spec.k, spec.out_w()});
      return last ? permuted(rows, {0, 2, 1}) : rows;
    });
  };
  return p;
}

Problem conv3d(const Arguments& a, DataType dtype) {
  const ops::Conv conv = attributes(a);
  const int64_t n = a["n"], c = a["c"], d = a["d"], h = a["h"], w = a["w"], k = a["k"], r = a["r"];
  const int64_t group_channels = c / a["groups"];
  const bool last = conv.layout == ops::NHWC;
  Tensor x = placeholder(last ? Shape{n, d, h, w, c} : Shape{n, c, d, h, w}, dtype, "x");
  Tensor weight = constant_placeholder(
      last ? Shape{r, r, r, group_channels, k} : Shape{k, group_channels, r, r, r}, dtype,
      "weight");
  Problem p;
  p.inputs = {x, weight};
  p.outputs = {ops::conv3d(x, weight, conv)};
  p.flops = conv_flops(p.outputs[0], group_channels, r * r * r);
  return p;
}

Problem conv_transpose2d(const Arguments& a, DataType dtype) {
  ops::ConvTranspose conv;
  conv.stride = {a["stride"]};
  conv.padding = {a["pad"]};
  conv.output_padding = {a["output_padding"]};
  conv.layout = layout_of(a);
  const int64_t c = a["c"], k = a["k"], r = a["r"];
  Tensor x = placeholder(image_shape(a), dtype, "x");
  Tensor w = constant_placeholder(conv.layout == ops::NHWC ? Shape{r, r, k, c} : Shape{c, k, r, r},
                                  dtype, "weight");
  Problem p;
  p.inputs = {x, w};
  p.outputs = {ops::conv_transpose2d(x, w, conv)};
  // Each element of the input is multiplied with each tap once.
  p.flops = conv_flops(x, k, r * r);
  return p;
}

}  // namespace

std::vector<SubjectKind> conv_subjects() {
  const Parameter k{"k", "", "output channels"}, r{"r", "3", "height of the filters"},
      s{"s", "=r", "width of the filters"}, taps{"r", "3", "extent of the filters"},
      stride{"stride", "1", "step of the filters"},
      pad{"pad", "0", "zeros around the image", {}, 0},
      dilation{"dilation", "1", "step of the taps"}, groups{"groups", "1", "channel groups"},
      width{"w", "", "width"}, channels{"c", "", "input channels"};
  const std::vector<Parameter> rest = {stride, pad, dilation, groups, layout_parameter()};
  const std::string group = "Convolutions";
  return {
      {group,
       "2-d convolution, constant weights",
       {"conv2d", 0, joined(joined(image_parameters(), {k, r, s}), rest),
        "conv2d:n=1,c=64,h=56,w=56,k=64,r=3,stride=1,pad=1,layout=nhwc"},
       conv2d},
      {group,
       "each channel by itself",
       {"depthwise_conv2d", 0,
        joined(image_parameters(), {taps,
                                    stride,
                                    pad,
                                    dilation,
                                    {"multiplier", "1", "output channels per input channel"},
                                    layout_parameter()}),
        "depthwise_conv2d:c=144,h=56,r=3,pad=1,layout=nhwc"},
       depthwise_conv2d},
      {group,
       "1-d convolution, constant weights",
       {"conv1d", 0, joined({batch_parameter(), channels, width, k, taps}, rest),
        "conv1d:c=64,w=256,k=128,r=3,pad=1"},
       conv1d},
      {group,
       "3-d convolution, constant weights",
       {"conv3d", 0,
        joined({batch_parameter(),
                channels,
                {"d", "", "depth"},
                {"h", "", "height"},
                {"w", "=h", "width"},
                k,
                taps},
               rest),
        "conv3d:c=16,d=16,h=56,k=32,r=3,pad=1"},
       conv3d},
      {group,
       "transposed convolution, constant weights",
       {"conv_transpose2d", 0,
        joined(image_parameters(), {k,
                                    {"r", "4", "extent of the filters"},
                                    stride,
                                    {"pad", "0", "taken off", {}, 0},
                                    {"output_padding", "0", "added at the end", {}, 0},
                                    layout_parameter()}),
        "conv_transpose2d:c=512,h=4,k=256,r=4,stride=2,pad=1"},
       conv_transpose2d},
  };
}

}  // namespace heddle::cli
