// The oneDNN peer: convolution, pooling and resize.
#include "peers/peer_onednn.h"
#include "peers/peer_onednn_internal.h"

namespace heddle::peers {

using namespace onednn_internal;  // NOLINT: this file is written in its terms

OnednnOp onednn_conv(const OnednnConvSpec& spec, const float* src, const float* weights,
                     const float* bias, float* dst) {
  return build("oneDNN convolution", [&]() -> OnednnOp {
    using dnnl::algorithm;
    const dnnl::memory::dims src_dims{spec.n, spec.c, spec.h, spec.w};
    const dnnl::memory::dims dst_dims{spec.n, spec.k, spec.out_h(), spec.out_w()};
    // A single group must not be written as a dimension of 1, which some implementations refuse.
    const dnnl::memory::dims weight_dims =
        spec.groups > 1 ? dnnl::memory::dims{spec.groups, spec.k / spec.groups,
                                             spec.c / spec.groups, spec.r, spec.s}
                        : dnnl::memory::dims{spec.k, spec.c, spec.r, spec.s};
    const auto plain_weights = plain(weight_dims);
    const auto wanted_weights =
        spec.plain_weights ? plain_weights : dnnl::memory::desc(weight_dims, kF32, Tag::any);
    const dnnl::memory::desc bias_desc({spec.k}, kF32, Tag::a);
    algorithm how = algorithm::convolution_direct;
    if (spec.algorithm == OnednnConvAlgorithm::kWinograd) how = algorithm::convolution_winograd;
    const dnnl::memory::dims strides{spec.stride, spec.stride};
    const dnnl::memory::dims dilates{spec.dilation - 1, spec.dilation - 1};
    const dnnl::memory::dims padding{spec.pad, spec.pad};
    // The padding of the far side follows from the output extent. With a stride it may be smaller.
    auto far_side = [&](int64_t out, int64_t in, int64_t taps) {
      return (out - 1) * spec.stride + spec.dilation * (taps - 1) + 1 - in - spec.pad;
    };
    const dnnl::memory::dims padding_far{far_side(spec.out_h(), spec.h, spec.r),
                                         far_side(spec.out_w(), spec.w, spec.s)};
    const auto src_wanted = images(src_dims, spec.layout);
    const auto dst_wanted = images(dst_dims, spec.layout);
    const auto desc =
        bias != nullptr
            ? dnnl::convolution_forward::desc(kInference, how, src_wanted, wanted_weights,
                                              bias_desc, dst_wanted, strides, dilates, padding,
                                              padding_far)
            : dnnl::convolution_forward::desc(kInference, how, src_wanted, wanted_weights,
                                              dst_wanted, strides, dilates, padding, padding_far);
    const dnnl::convolution_forward::primitive_desc pd(desc, with_activation(spec.activation),
                                                       engine());
    Builder builder;
    builder.input(DNNL_ARG_SRC, plain(src_dims), pd.src_desc(), src);
    builder.input(DNNL_ARG_WEIGHTS, plain_weights, pd.weights_desc(), weights);
    if (bias != nullptr) builder.input(DNNL_ARG_BIAS, bias_desc, bias);
    builder.output(DNNL_ARG_DST, plain(dst_dims), pd.dst_desc(), dst);
    return builder.finish(dnnl::convolution_forward(pd), pd.impl_info_str());
  });
}

OnednnOp onednn_pool(const OnednnPoolSpec& spec, const float* src, float* dst) {
  return build("oneDNN pooling", [&]() -> OnednnOp {
    using dnnl::algorithm;
    const dnnl::memory::dims src_dims{spec.n, spec.c, spec.h, spec.w};
    const dnnl::memory::dims dst_dims{spec.n, spec.c, spec.out_h(), spec.out_w()};
    const algorithm how = spec.kind == OnednnPoolKind::kMax
                              ? algorithm::pooling_max
                              : algorithm::pooling_avg_exclude_padding;
    auto far_side = [&](int64_t out, int64_t in) {
      return (out - 1) * spec.stride + spec.window - in - spec.pad;
    };
    // Pooling takes the layout of its source as given. With kAny the source has the blocked layout
    // of oneDNN's convolutions.
    const dnnl::memory::desc src_wanted = spec.layout == OnednnLayout::kAny
                                              ? dnnl::memory::desc(src_dims, kF32, Tag::nChw8c)
                                              : images(src_dims, spec.layout);
    const dnnl::pooling_forward::desc desc(
        kInference, how, src_wanted, images(dst_dims, spec.layout), {spec.stride, spec.stride},
        {spec.window, spec.window}, {spec.pad, spec.pad},
        {far_side(spec.out_h(), spec.h), far_side(spec.out_w(), spec.w)});
    const dnnl::pooling_forward::primitive_desc pd(desc, engine());
    Builder builder;
    builder.input(DNNL_ARG_SRC, plain(src_dims), pd.src_desc(), src);
    builder.output(DNNL_ARG_DST, plain(dst_dims), pd.dst_desc(), dst);
    return builder.finish(dnnl::pooling_forward(pd), pd.impl_info_str());
  });
}

OnednnOp onednn_resize(const OnednnResizeSpec& spec, const float* src, float* dst) {
  return build("oneDNN resize", [&]() -> OnednnOp {
    const dnnl::memory::dims src_dims{spec.n, spec.c, spec.h, spec.w};
    const dnnl::memory::dims dst_dims{spec.n, spec.c, spec.out_h, spec.out_w};
    const dnnl::memory::desc src_wanted = spec.layout == OnednnLayout::kAny
                                              ? dnnl::memory::desc(src_dims, kF32, Tag::nChw8c)
                                              : images(src_dims, spec.layout);
    const dnnl::resampling_forward::desc desc(kInference, dnnl::algorithm::resampling_linear,
                                              src_wanted, images(dst_dims, spec.layout));
    const dnnl::resampling_forward::primitive_desc pd(desc, engine());
    Builder builder;
    builder.input(DNNL_ARG_SRC, plain(src_dims), pd.src_desc(), src);
    builder.output(DNNL_ARG_DST, plain(dst_dims), pd.dst_desc(), dst);
    return builder.finish(dnnl::resampling_forward(pd), pd.impl_info_str());
  });
}

}  // namespace heddle::peers
