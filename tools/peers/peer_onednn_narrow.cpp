// The oneDNN peer: products and convolutions of other types than f32.
#include "peers/peer_onednn.h"
#include "peers/peer_onednn_internal.h"

namespace heddle::peers {

using namespace onednn_internal;  // NOLINT: this file is written in its terms

namespace {

dnnl::memory::data_type data_type(OnednnType t) {
  switch (t) {
    case OnednnType::kF32: return dnnl::memory::data_type::f32;
    case OnednnType::kBf16: return dnnl::memory::data_type::bf16;
    case OnednnType::kF16: return dnnl::memory::data_type::f16;
    case OnednnType::kS8: return dnnl::memory::data_type::s8;
    case OnednnType::kU8: return dnnl::memory::data_type::u8;
    case OnednnType::kS32: return dnnl::memory::data_type::s32;
  }
  return dnnl::memory::data_type::undef;
}

// Memory objects ignore the type of the pointer.
const float* bytes_of(const void* data) { return static_cast<const float*>(data); }
float* bytes_of(void* data) { return static_cast<float*>(data); }

}  // namespace

OnednnOp onednn_matmul_of(const OnednnMatmulSpec& spec, const OnednnTypes& types, const void* a,
                          const void* b, void* c) {
  return build("oneDNN matmul", [&]() -> OnednnOp {
    const GemmShape& s = spec.shape;
    const dnnl::memory::desc a_desc({s.m, s.k}, data_type(types.a), s.trans_a ? Tag::ba : Tag::ab);
    const dnnl::memory::desc b_desc({s.k, s.n}, data_type(types.b), s.trans_b ? Tag::ba : Tag::ab);
    const dnnl::memory::desc c_desc({s.m, s.n}, data_type(types.c), Tag::ab);
    const auto b_wanted =
        spec.packed_weights ? dnnl::memory::desc({s.k, s.n}, data_type(types.b), Tag::any) : b_desc;
    const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a_desc, b_wanted, c_desc), engine());
    Builder builder;
    builder.input(DNNL_ARG_SRC, a_desc, bytes_of(a));
    builder.input(DNNL_ARG_WEIGHTS, b_desc, pd.weights_desc(), bytes_of(b));
    builder.output(DNNL_ARG_DST, c_desc, bytes_of(c));
    return builder.finish(dnnl::matmul(pd), pd.impl_info_str());
  });
}

OnednnOp onednn_gemm_s32(const GemmShape& s, OnednnType a_type, const void* a, const int8_t* b,
                         int32_t* c) {
  auto state = std::make_shared<OnednnOp::State>();
  state->implementation = a_type == OnednnType::kU8 ? "gemm_u8s8s32" : "gemm_s8s8s32";
  state->call = [s, a_type, a, b, c] {
    const char ta = s.trans_a ? 'T' : 'N', tb = s.trans_b ? 'T' : 'N';
    const int32_t no_offset = 0;
    if (a_type == OnednnType::kU8) {
      dnnl_gemm_u8s8s32(ta, tb, 'F', s.m, s.n, s.k, 1.0f, static_cast<const uint8_t*>(a), s.lda(),
                        0, b, s.ldb(), 0, 0.0f, c, s.n, &no_offset);
    } else {
      dnnl_gemm_s8s8s32(ta, tb, 'F', s.m, s.n, s.k, 1.0f, static_cast<const int8_t*>(a), s.lda(), 0,
                        b, s.ldb(), 0, 0.0f, c, s.n, &no_offset);
    }
  };
  return OnednnOp(std::move(state));
}

OnednnOp onednn_conv_of(const OnednnConvSpec& spec, const OnednnTypes& types, bool channels_last,
                        const void* src, const void* weights, void* dst) {
  return build("oneDNN convolution", [&]() -> OnednnOp {
    if (spec.groups > 1 || spec.stride > 1) return OnednnOp::unsupported("not asked for");
    const dnnl::memory::dims src_dims{spec.n, spec.c, spec.h, spec.w};
    const dnnl::memory::dims weight_dims{spec.k, spec.c, spec.r, spec.s};
    const dnnl::memory::dims dst_dims{spec.n, spec.k, spec.out_h(), spec.out_w()};
    const Tag image = channels_last ? Tag::nhwc : Tag::nchw;
    const dnnl::memory::desc have_src(src_dims, data_type(types.a), image);
    const dnnl::memory::desc have_weights(weight_dims, data_type(types.b),
                                          channels_last ? Tag::hwio : Tag::oihw);
    const dnnl::memory::desc have_dst(dst_dims, data_type(types.c), image);
    // Images are in oneDNN's own layout or in the caller's. Weights are in oneDNN's layout in both
    // cases.
    const bool any = spec.layout == OnednnLayout::kAny;
    const auto wanted = [&](const dnnl::memory::dims& dims, OnednnType t,
                            const dnnl::memory::desc& have) {
      return any ? dnnl::memory::desc(dims, data_type(t), Tag::any) : have;
    };
    const dnnl::memory::dims ones{1, 1}, dilates{spec.dilation - 1, spec.dilation - 1},
        padding{spec.pad, spec.pad};
    const dnnl::convolution_forward::desc desc(
        kInference, dnnl::algorithm::convolution_direct, wanted(src_dims, types.a, have_src),
        dnnl::memory::desc(weight_dims, data_type(types.b), Tag::any),
        wanted(dst_dims, types.c, have_dst), ones, dilates, padding, padding);
    const dnnl::convolution_forward::primitive_desc pd(desc, engine());
    Builder builder;
    builder.input(DNNL_ARG_SRC, have_src, pd.src_desc(), bytes_of(src));
    builder.input(DNNL_ARG_WEIGHTS, have_weights, pd.weights_desc(), bytes_of(weights));
    builder.output(DNNL_ARG_DST, have_dst, pd.dst_desc(), bytes_of(dst));
    return builder.finish(dnnl::convolution_forward(pd), pd.impl_info_str());
  });
}

}  // namespace heddle::peers
