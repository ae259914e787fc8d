// Pooling and resizing.
#include <cstdint>

#include "heddle/ops/pool.h"
#include "heddle/ops/resize.h"
#include "subjects/image_parts.h"

namespace heddle::cli {
namespace {

using peers::OnednnPoolKind;

ops::Pool attributes(const Arguments& a) {
  ops::Pool pool;
  pool.kernel = {a["r"]};
  pool.stride = {a["stride"]};
  pool.padding = {a["pad"]};
  pool.layout = layout_of(a);
  return pool;
}

// oneDNN's pooling of the image in each layout that it implements; the fastest counts.
void add_pool_peers(PeerSet& set, peers::OnednnPoolSpec spec, ops::Layout layout) {
  if (!set.onednn() || !set.all_f32()) return;
  const NDArray image = set.keep(to_nchw(set.input(0), layout));
  std::vector<PeerSet::Candidate> candidates;
  for (const auto& [peer_layout, name] : {std::pair{peers::OnednnLayout::kNchw, "nchw"},
                                          std::pair{peers::OnednnLayout::kNhwc, "nhwc"}}) {
    spec.layout = peer_layout;
    const NDArray out = set.keep(NDArray::empty({spec.n, spec.c, spec.out_h(), spec.out_w()}, f32));
    candidates.push_back({name, onednn_pool(spec, image.data<float>(), out.data<float>()), out});
  }
  set.add_fastest_onednn(std::move(candidates),
                         [layout](const NDArray& y) { return from_nchw(y, layout); });
}

peers::OnednnPoolSpec spec_of(const Arguments& a, OnednnPoolKind kind) {
  peers::OnednnPoolSpec spec;
  spec.n = a["n"];
  spec.c = a["c"];
  spec.h = a["h"];
  spec.w = a["w"];
  spec.kind = kind;
  return spec;
}

Problem pooled(const Arguments& a, const Tensor& x, Tensor y, OnednnPoolKind kind) {
  Problem p;
  p.inputs = {x};
  p.outputs = {std::move(y)};
  p.bound = Bound::Copy;
  peers::OnednnPoolSpec spec = spec_of(a, kind);
  spec.window = a["r"];
  spec.stride = a["stride"];
  spec.pad = a["pad"];
  p.peers = [spec, layout = layout_of(a)](PeerSet& set) { add_pool_peers(set, spec, layout); };
  return p;
}

Problem max_pool2d(const Arguments& a, DataType dtype) {
  Tensor x = placeholder(image_shape(a), dtype, "x");
  return pooled(a, x, ops::max_pool(x, attributes(a)), OnednnPoolKind::kMax);
}

Problem avg_pool2d(const Arguments& a, DataType dtype) {
  Tensor x = placeholder(image_shape(a), dtype, "x");
  return pooled(a, x, ops::avg_pool(x, attributes(a)), OnednnPoolKind::kAvgExcludePad);
}

Problem global_avg_pool(const Arguments& a, DataType dtype) {
  Tensor x = placeholder(image_shape(a), dtype, "x");
  Problem p;
  p.inputs = {x};
  p.outputs = {ops::global_avg_pool(x, layout_of(a))};
  p.bound = Bound::Read;
  // These windows of oneDNN are square.
  if (a["h"] == a["w"]) {
    peers::OnednnPoolSpec spec = spec_of(a, OnednnPoolKind::kAvgExcludePad);
    spec.window = spec.stride = a["h"];
    p.peers = [spec, layout = layout_of(a)](PeerSet& set) { add_pool_peers(set, spec, layout); };
  }
  return p;
}

Problem resize_bilinear(const Arguments& a, DataType dtype) {
  const ops::Layout layout = layout_of(a);
  peers::OnednnResizeSpec spec;
  spec.n = a["n"];
  spec.c = a["c"];
  spec.h = a["h"];
  spec.w = a["w"];
  spec.out_h = a["h"] * a["scale"];
  spec.out_w = a["w"] * a["scale"];
  ops::Resize resize;
  resize.layout = layout;
  Tensor x = placeholder(image_shape(a), dtype, "x");
  Problem p;
  p.inputs = {x};
  p.outputs = {ops::resize(x, {spec.out_h, spec.out_w}, resize)};
  p.bound = Bound::Copy;
  p.peers = [spec, layout](PeerSet& set) {
    if (!set.onednn() || !set.all_f32()) return;
    const NDArray image = set.keep(to_nchw(set.input(0), layout));
    std::vector<PeerSet::Candidate> candidates;
    peers::OnednnResizeSpec s = spec;
    for (const auto& [peer_layout, name] : {std::pair{peers::OnednnLayout::kNchw, "nchw"},
                                            std::pair{peers::OnednnLayout::kNhwc, "nhwc"}}) {
      s.layout = peer_layout;
      const NDArray out = set.keep(NDArray::empty({s.n, s.c, s.out_h, s.out_w}, f32));
      candidates.push_back({name, onednn_resize(s, image.data<float>(), out.data<float>()), out});
    }
    set.add_fastest_onednn(std::move(candidates),
                           [layout](const NDArray& y) { return from_nchw(y, layout); });
  };
  return p;
}

}  // namespace

std::vector<SubjectKind> image_subjects() {
  const std::vector<Parameter> window = {{"r", "3", "extent of the windows"},
                                         {"stride", "2", "step of the windows"},
                                         {"pad", "0", "border that never wins", {}, 0},
                                         layout_parameter()};
  const std::string group = "Images";
  return {
      {group,
       "the largest element of each window",
       {"max_pool2d", 0, joined(image_parameters(), window),
        "max_pool2d:c=64,h=112,r=3,stride=2,pad=1"},
       max_pool2d},
      {group,
       "the mean of each window",
       {"avg_pool2d", 0, joined(image_parameters(), window),
        "avg_pool2d:c=64,h=112,r=3,stride=2,pad=1"},
       avg_pool2d},
      {group,
       "the mean of each channel",
       {"global_avg_pool", 0, joined(image_parameters(), {layout_parameter()}),
        "global_avg_pool:c=2048,h=7"},
       global_avg_pool},
      {group,
       "larger by a whole factor, half-pixel centres",
       {"resize_bilinear", 0,
        joined(image_parameters(), {{"scale", "2", "factor"}, layout_parameter()}),
        "resize_bilinear:c=64,h=56,scale=2"},
       resize_bilinear},
  };
}

}  // namespace heddle::cli
