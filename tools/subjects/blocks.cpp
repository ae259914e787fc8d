// Several operators in one declaration, and a whole small network.
#include <cmath>
#include <cstdint>

#include "heddle/ops/conv.h"
#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/nn.h"
#include "heddle/ops/pool.h"
#include "heddle/ops/transform.h"
#include "subjects/image_parts.h"

namespace heddle::cli {
namespace {

// A convolution with r x r filters that keeps the size of the image or divides it by a stride.
struct Block {
  ops::Layout layout;
  ops::Conv conv;
  peers::OnednnConvSpec spec;
  Tensor x, weight;
};

Block block(const Arguments& a, DataType dtype) {
  Block b;
  b.layout = layout_of(a);
  b.conv.stride = {a["stride"]};
  b.conv.padding = {a["pad"]};
  b.conv.layout = b.layout;
  peers::OnednnConvSpec& s = b.spec;
  s.n = a["n"];
  s.c = a["c"];
  s.h = a["h"];
  s.w = a["w"];
  s.k = a["k"];
  s.r = s.s = a["r"];
  s.stride = a["stride"];
  s.pad = a["pad"];
  s.activation = peers::OnednnEltwise::kRelu;
  b.x = placeholder(image_shape(a), dtype, "x");
  b.weight = constant_placeholder(
      b.layout == ops::NHWC ? Shape{s.r, s.s, s.c, s.k} : Shape{s.k, s.c, s.r, s.s}, dtype,
      "weight");
  return b;
}

Problem conv_bias_relu(const Arguments& a, DataType dtype) {
  const Block b = block(a, dtype);
  Tensor bias = constant_placeholder({b.spec.k}, dtype, "bias");
  Problem p;
  p.inputs = {b.x, b.weight, bias};
  p.outputs = {ops::relu(ops::conv2d(b.x, b.weight, b.conv, bias))};
  p.flops = b.spec.flops();
  p.peers = [spec = b.spec, layout = b.layout](PeerSet& set) {
    if (!set.onednn() || !set.all_f32()) return;
    add_conv_peers(set, spec, to_nchw(set.input(0), layout), to_oihw(set.input(1), layout),
                   set.input(2), [layout](const NDArray& y) { return from_nchw(y, layout); });
  };
  return p;
}

// The end of a residual block.
Problem conv_add_relu(const Arguments& a, DataType dtype) {
  const Block b = block(a, dtype);
  Tensor bias = constant_placeholder({b.spec.k}, dtype, "bias");
  const Tensor y = ops::conv2d(b.x, b.weight, b.conv, bias);
  Tensor residual = placeholder(y.shape(), y.dtype(), "residual");
  Problem p;
  p.inputs = {b.x, b.weight, bias, residual};
  p.outputs = {ops::relu(ops::add(y, residual))};
  p.flops = b.spec.flops();
  return p;
}

// oneDNN with the normalisation folded into filters and bias, as in deployments.
void add_folded_peers(PeerSet& set, const peers::OnednnConvSpec& spec, ops::Layout layout) {
  if (!set.onednn() || !set.all_f32()) return;
  const NDArray weight = to_oihw(set.input(1), layout).copy();
  const NDArray bias = NDArray::empty({spec.k}, f32);
  const float *scale = set.f32(2), *shift = set.f32(3), *mean = set.f32(4), *var = set.f32(5);
  const int64_t taps = weight.size() / spec.k;
  for (int64_t k = 0; k < spec.k; ++k) {
    const float factor = scale[k] / std::sqrt(var[k] + 1e-5f);
    for (int64_t i = 0; i < taps; ++i) weight.data<float>()[k * taps + i] *= factor;
    bias.data<float>()[k] = shift[k] - mean[k] * factor;
  }
  add_conv_peers(set, spec, to_nchw(set.input(0), layout), weight, bias,
                 [layout](const NDArray& y) { return from_nchw(y, layout); });
}

Problem conv_bn_relu(const Arguments& a, DataType dtype) {
  const Block b = block(a, dtype);
  auto per_channel = [&](const char* name) {
    return constant_placeholder({b.spec.k}, dtype, name);
  };
  Tensor scale = per_channel("scale"), shift = per_channel("shift");
  Tensor mean = per_channel("mean"), variance = per_channel("variance");
  Problem p;
  p.inputs = {b.x, b.weight, scale, shift, mean, variance};
  p.ranges = {{}, {}, {}, {}, {}, {0.5, 1.5}};
  const Tensor y = ops::conv2d(b.x, b.weight, b.conv);
  p.outputs = {ops::relu(
      ops::batch_norm(y, scale, shift, mean, variance, 1e-5, b.layout == ops::NHWC ? 3 : 1))};
  p.flops = b.spec.flops();
  p.peers = [spec = b.spec, layout = b.layout](PeerSet& set) {
    add_folded_peers(set, spec, layout);
  };
  return p;
}

Problem matmul_bias_gelu(const Arguments& a, DataType dtype) {
  const peers::GemmShape s{a["m"], a["n"], a["k"]};
  Tensor x = placeholder({s.m, s.k}, dtype, "x");
  Tensor weight = constant_placeholder({s.k, s.n}, dtype, "weight");
  Tensor bias = constant_placeholder({s.n}, dtype, "bias");
  Problem p;
  p.inputs = {x, weight, bias};
  p.outputs = {ops::gelu(ops::add(ops::matmul(x, weight), bias))};
  p.flops = s.flops();
  p.peers = [s](PeerSet& set) {
    if (!set.onednn() || !set.all_f32()) return;
    const NDArray c = set.keep(NDArray::empty({s.m, s.n}, f32));
    peers::OnednnMatmulSpec spec;
    spec.shape = s;
    spec.packed_weights = true;
    spec.activation = peers::OnednnEltwise::kGeluErf;
    set.add_onednn(onednn_matmul(spec, set.f32(0), set.f32(1), set.f32(2), c.data<float>()), c);
  };
  return p;
}

// oneDNN takes three primitives, one after the other. The scale is multiplied into q beforehand,
// untimed.
void add_attention_peer(PeerSet& set, int64_t h, int64_t l, int64_t d) {
  if (!set.onednn() || !set.all_f32()) return;
  const NDArray q = set.keep(set.input(0).copy());
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  for (int64_t i = 0; i < q.size(); ++i) q.data<float>()[i] *= scale;
  const NDArray scores = set.keep(NDArray::empty({h, l, l}, f32));
  const NDArray weights = set.keep(NDArray::empty({h, l, l}, f32));
  const NDArray out = set.keep(NDArray::empty({h, l, d}, f32));
  peers::OnednnMatmulSpec first, last;
  first.batch = last.batch = h;
  first.shape = {l, l, d, false, true};
  last.shape = {l, d, l};
  const auto qk = onednn_matmul(first, q.data<float>(), set.f32(1), nullptr, scores.data<float>());
  const auto softmax = peers::onednn_softmax(h * l, l, scores.data<float>(), weights.data<float>());
  const auto pv =
      onednn_matmul(last, weights.data<float>(), set.f32(2), nullptr, out.data<float>());
  if (!qk || !softmax || !pv) return;
  set.add({"onednn", "matmul, softmax, matmul",
           [=] {
             qk.run();
             softmax.run();
             pv.run();
           },
           [=] {
             pv.read_back();
             return out;
           }});
}

Problem attention(const Arguments& a, DataType dtype) {
  const int64_t h = a["h"], l = a["l"], d = a["d"], kv = a["kv"] ? a["kv"] : h;
  const int64_t s = a["s"] ? a["s"] : l;
  const bool grouped = kv != h, causal = a["causal"] != 0;
  if (h % kv != 0)
    throw_user_error("attention: " + std::to_string(h) + " heads are no whole groups for " +
                         std::to_string(kv) + " heads of keys",
                     {}, "choose kv to divide h");
  Tensor q = placeholder(grouped ? Shape{kv, h / kv, l, d} : Shape{h, l, d}, dtype, "q");
  const Shape shape = grouped ? Shape{kv, 1, s, d} : Shape{h, s, d};
  Tensor k = placeholder(shape, dtype, "k"), v = placeholder(shape, dtype, "v");
  Tensor mask;
  if (causal) {
    mask = compute({l, s}, [&](const std::vector<Axis>& i) -> Expr { return i[1] <= i[0]; });
  }
  Problem p;
  p.inputs = {q, k, v};
  p.outputs = {ops::scaled_dot_product_attention(q, k, v, mask)};
  p.flops = (causal ? 2.0 : 4.0) * static_cast<double>(h * l * s * d);
  if (!grouped && !causal && s == l)
    p.peers = [=](PeerSet& set) { add_attention_peer(set, h, l, d); };
  return p;
}

// The network of tutorials/data, with random weights.
Problem lenet(const Arguments& a, DataType dtype) {
  const int64_t n = a["batch"];
  Problem p;
  auto weight = [&](Shape shape, const char* name) {
    p.inputs.push_back(constant_placeholder(std::move(shape), dtype, name));
    return p.inputs.back();
  };
  Tensor x = placeholder({n, 1, 8, 8}, dtype, "images");
  p.inputs = {x};
  ops::Conv same;
  same.padding = {1};
  ops::Pool half;
  half.kernel = {2};
  auto conv = [&](const Tensor& t, int64_t out, const char* w, const char* b) {
    Tensor filters = weight({out, t.extent(1), 3, 3}, w);
    return ops::relu(ops::conv2d(t, filters, same, weight({out}, b)));
  };
  auto dense = [&](const Tensor& t, int64_t out, const char* w, const char* b) {
    Tensor matrix = weight({out, t.extent(1)}, w);
    return ops::dense(t, matrix, weight({out}, b));
  };
  Tensor y = conv(x, 16, "conv1.weight", "conv1.bias");
  y = conv(y, 32, "conv2.weight", "conv2.bias");
  y = ops::flatten(ops::max_pool(y, half));
  y = ops::relu(dense(y, 64, "fc1.weight", "fc1.bias"));
  p.outputs = {dense(y, 10, "fc2.weight", "fc2.bias")};
  return p;
}

}  // namespace

std::vector<SubjectKind> block_subjects() {
  const std::vector<Parameter> filters = {{"k", "", "output channels"},
                                          {"r", "3", "extent of the filters"},
                                          {"stride", "1", "step of the filters"},
                                          {"pad", "0", "zeros around the image", {}, 0},
                                          layout_parameter()};
  const std::string image = "c=64,h=56,k=64,r=3,pad=1,layout=nhwc";
  const std::string group = "Fused blocks and networks";
  return {
      {group,
       "convolution, bias, relu; constant weights",
       {"conv_bias_relu", 0, joined(image_parameters(), filters), "conv_bias_relu:" + image},
       conv_bias_relu},
      {group,
       "convolution, bias, residual, relu; constant weights",
       {"conv_add_relu", 0, joined(image_parameters(), filters), "conv_add_relu:" + image},
       conv_add_relu},
      {group,
       "convolution, batch normalisation, relu; constant weights",
       {"conv_bn_relu", 0, joined(image_parameters(), filters), "conv_bn_relu:" + image},
       conv_bn_relu},
      {group,
       "gelu(x (M, K) x constant weight (K, N) + bias)",
       {"matmul_bias_gelu",
        3,
        {{"m", "", "rows"}, {"n", "", "columns"}, {"k", "", "length of the sums"}},
        "matmul_bias_gelu:128x3072x768"},
       matmul_bias_gelu},
      {group,
       "softmax(q k^T / sqrt(d)) v of (H, L, D) each",
       {"attention",
        3,
        {{"h", "", "heads"},
         {"l", "", "tokens"},
         {"d", "", "size of a head"},
         {"s", "0", "keys; 0: one for each token"},
         {"kv", "0", "heads of keys, each for a group of heads; 0: as many as heads"},
         flag("causal", "1: tokens attend to none behind them")},
        "attention:12x128x64"},
       attention},
      {group,
       "the network of the tutorials (8x8 digits), random weights",
       {"lenet", 1, {{"batch", "", "images"}}, "lenet:128"},
       lenet,
       true},
      {group,
       "the same for the 128 images of the tutorials",
       {"digits", 0, {{"batch", "128", "images"}}, "digits"},
       lenet,
       true},
  };
}

}  // namespace heddle::cli
