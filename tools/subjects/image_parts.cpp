#include "subjects/image_parts.h"

#include <utility>

namespace heddle::cli {

using peers::OnednnLayout;

ops::Layout layout_of(const Arguments& a) {
  return a.word("layout") == "nhwc" ? ops::NHWC : ops::NCHW;
}

Shape image_shape(const Arguments& a) {
  if (layout_of(a) == ops::NHWC) return {a["n"], a["h"], a["w"], a["c"]};
  return {a["n"], a["c"], a["h"], a["w"]};
}

Parameter batch_parameter() { return {"n", "1", "images"}; }

Parameter layout_parameter() {
  return {"layout", "nchw", "of the image; channels last is usually faster", {"nchw", "nhwc"}};
}

std::vector<Parameter> image_parameters() {
  return {batch_parameter(),
          {"c", "", "input channels"},
          {"h", "", "height of the image"},
          {"w", "=h", "width of the image"}};
}

std::vector<Parameter> joined(std::vector<Parameter> first, const std::vector<Parameter>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

NDArray to_nchw(const NDArray& image, ops::Layout layout) {
  return layout == ops::NHWC ? permuted(image, {0, 3, 1, 2}) : image;
}

NDArray from_nchw(const NDArray& image, ops::Layout layout) {
  return layout == ops::NHWC ? permuted(image, {0, 2, 3, 1}) : image;
}

NDArray to_oihw(const NDArray& weight, ops::Layout layout) {
  return layout == ops::NHWC ? permuted(weight, {3, 2, 0, 1}) : weight;
}

void add_conv_peers(PeerSet& set, peers::OnednnConvSpec spec, const NDArray& image,
                    const NDArray& weight, const NDArray& bias, const PeerSet::Convert& convert) {
  const float* x = set.keep(image).data<float>();
  const float* w = set.keep(weight).data<float>();
  const float* b = bias.defined() ? set.keep(bias).data<float>() : nullptr;
  auto output = [&] {
    return set.keep(NDArray::empty({spec.n, spec.k, spec.out_h(), spec.out_w()}, f32));
  };
  std::vector<PeerSet::Candidate> candidates;
  for (const auto& [layout, name] :
       {std::pair{OnednnLayout::kAny, "its own layout"}, std::pair{OnednnLayout::kNhwc, "nhwc"}}) {
    spec.layout = layout;
    const NDArray out = output();
    candidates.push_back({name, onednn_conv(spec, x, w, b, out.data<float>()), out});
  }
  set.add_fastest_onednn(std::move(candidates), convert);

  // Winograd rounds differently, so it has a row of its own.
  if (spec.r != 3 || spec.s != 3 || spec.stride != 1 || spec.dilation != 1 || spec.groups != 1) {
    return;
  }
  spec.layout = OnednnLayout::kAny;
  spec.algorithm = peers::OnednnConvAlgorithm::kWinograd;
  const NDArray out = output();
  const peers::OnednnOp winograd = onednn_conv(spec, x, w, b, out.data<float>());
  if (winograd) set.add_onednn(winograd, out, convert, "onednn_winograd");
}

}  // namespace heddle::cli
