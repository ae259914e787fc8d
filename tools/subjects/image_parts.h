// What the subjects on images share: layouts, the parameters of convolutions, and oneDNN's.
#pragma once

#include <vector>

#include "heddle/ops/layout.h"
#include "peers/peer_onednn.h"
#include "subjects/peer_set.h"
#include "subjects/subjects.h"

namespace heddle::cli {

ops::Layout layout_of(const Arguments& a);
/// (N, C, H, W) or (N, H, W, C)
Shape image_shape(const Arguments& a);

Parameter batch_parameter();
Parameter layout_parameter();
/// n, c, h, w, the image's.
std::vector<Parameter> image_parameters();
std::vector<Parameter> joined(std::vector<Parameter> first, const std::vector<Parameter>& rest);

/// Ours to oneDNN's plain order, (N, C, H, W) and OIHW, and back.
NDArray to_nchw(const NDArray& image, ops::Layout layout);
NDArray from_nchw(const NDArray& image, ops::Layout layout);
NDArray to_oihw(const NDArray& weight, ops::Layout layout);

/// oneDNN's convolution in the layouts it may prefer, the fastest of which counts. `image` is NCHW,
/// `weight` OIHW; `bias` may be undefined.
void add_conv_peers(PeerSet& set, peers::OnednnConvSpec spec, const NDArray& image,
                    const NDArray& weight, const NDArray& bias, const PeerSet::Convert& convert);

}  // namespace heddle::cli
