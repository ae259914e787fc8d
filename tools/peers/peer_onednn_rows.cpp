// The oneDNN peer: row-wise ops, elementwise ops, reductions and permutations.
#include <algorithm>

#include "peers/interleave.h"
#include "peers/peer_onednn.h"
#include "peers/peer_onednn_internal.h"

namespace heddle::peers {

using namespace onednn_internal;  // NOLINT: this file is written in its terms

namespace {

// A primitive with one input and one output of the same plain description.
template <typename PrimitiveDesc, typename Primitive, typename Desc>
OnednnOp one_to_one(const Desc& desc, const dnnl::memory::desc& data, const float* src,
                    float* dst) {
  const PrimitiveDesc pd(desc, engine());
  Builder builder;
  builder.input(DNNL_ARG_SRC, data, src);
  builder.output(DNNL_ARG_DST, data, dst);
  return builder.finish(Primitive(pd), pd.impl_info_str());
}

OnednnOp binary_add(const dnnl::memory::desc& a_desc, const dnnl::memory::desc& b_desc,
                    OnednnEltwise after, const float* a, const float* b, float* dst) {
  const dnnl::binary::desc desc(dnnl::algorithm::binary_add, a_desc, b_desc, a_desc);
  const dnnl::binary::primitive_desc pd(desc, with_activation(after), engine());
  Builder builder;
  builder.input(DNNL_ARG_SRC_0, a_desc, a);
  builder.input(DNNL_ARG_SRC_1, b_desc, b);
  builder.output(DNNL_ARG_DST, a_desc, dst);
  return builder.finish(dnnl::binary(pd), pd.impl_info_str());
}

// Times the ops against each other and returns the fastest.
OnednnOp fastest(const std::vector<OnednnOp>& ops) {
  std::vector<OnednnOp> built;
  std::vector<TimedCase> cases;
  for (const OnednnOp& op : ops) {
    if (!op) continue;
    built.push_back(op);
    cases.push_back({op.implementation(), [op] { op.run(); }});
  }
  if (built.empty()) return ops.front();
  if (built.size() == 1) return built.front();
  InterleaveOptions options;
  options.min_rounds = 3;
  options.time_cap_seconds = 0.2;
  const std::vector<CaseTimes> times = time_interleaved(cases, options);
  const auto best = std::min_element(
      times.begin(), times.end(),
      [](const CaseTimes& x, const CaseTimes& y) { return x.median_seconds < y.median_seconds; });
  return built[static_cast<size_t>(best - times.begin())];
}

// The sum of each column as the product of a row of `weight`s with the matrix. oneDNN 2.6 has only
// its reference code for a reduction over rows, which is about a hundred times slower.
OnednnOp columns_by_matmul(int64_t rows, int64_t cols, const float* src, float* dst) {
  return build("oneDNN matmul", [&]() -> OnednnOp {
    const auto row_desc = plain({1, rows});
    const auto src_desc = plain({rows, cols});
    const auto dst_desc = plain({1, cols});
    const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(row_desc, src_desc, dst_desc),
                                          engine());
    dnnl::memory weights(row_desc, engine());
    std::fill_n(static_cast<float*>(weights.get_data_handle()), rows, 1.0f);
    Builder builder;
    builder.own_input(DNNL_ARG_SRC, weights);
    builder.input(DNNL_ARG_WEIGHTS, src_desc, src);
    builder.output(DNNL_ARG_DST, dst_desc, dst);
    return builder.finish(dnnl::matmul(pd), std::string("matmul ") + pd.impl_info_str());
  });
}

}  // namespace

OnednnOp onednn_softmax(int64_t rows, int64_t cols, const float* src, float* dst) {
  return build("oneDNN softmax", [&]() -> OnednnOp {
    const auto data = plain({rows, cols});
    return one_to_one<dnnl::softmax_forward::primitive_desc, dnnl::softmax_forward>(
        dnnl::softmax_forward::desc(kInference, data, 1), data, src, dst);
  });
}

OnednnOp onednn_logsoftmax(int64_t rows, int64_t cols, const float* src, float* dst) {
  return build("oneDNN logsoftmax", [&]() -> OnednnOp {
    const auto data = plain({rows, cols});
    return one_to_one<dnnl::logsoftmax_forward::primitive_desc, dnnl::logsoftmax_forward>(
        dnnl::logsoftmax_forward::desc(kInference, data, 1), data, src, dst);
  });
}

OnednnOp onednn_layer_norm(int64_t rows, int64_t cols, float epsilon, const float* scale,
                           const float* shift, const float* src, float* dst) {
  return build("oneDNN layer normalization", [&]() -> OnednnOp {
    const auto data = plain({rows, cols});
    const dnnl::layer_normalization_forward::desc desc(kInference, data, epsilon,
                                                       dnnl::normalization_flags::use_scale_shift);
    const dnnl::layer_normalization_forward::primitive_desc pd(desc, engine());
    // oneDNN 2 takes scale and shift as one 2 x cols tensor.
    dnnl::memory scale_shift(plain({2, cols}), engine());
    auto* values = static_cast<float*>(scale_shift.get_data_handle());
    std::copy_n(scale, cols, values);
    std::copy_n(shift, cols, values + cols);
    Builder builder;
    builder.input(DNNL_ARG_SRC, data, src);
    builder.own_input(DNNL_ARG_SCALE_SHIFT, scale_shift);
    builder.output(DNNL_ARG_DST, data, dst);
    return builder.finish(dnnl::layer_normalization_forward(pd), pd.impl_info_str());
  });
}

OnednnOp onednn_add_relu(const std::vector<int64_t>& dims, const float* a, const float* b,
                         float* dst) {
  return build("oneDNN binary add and relu", [&] {
    return binary_add(plain(dims), plain(dims), OnednnEltwise::kRelu, a, b, dst);
  });
}

OnednnOp onednn_concat(int64_t rows, int64_t cols, int axis, const std::vector<const float*>& parts,
                       float* dst) {
  return build("oneDNN concat", [&]() -> OnednnOp {
    const auto part = plain({rows, cols});
    dnnl::memory::dims whole{rows, cols};
    whole[static_cast<size_t>(axis)] *= static_cast<int64_t>(parts.size());
    const dnnl::concat::primitive_desc pd(
        plain(whole), axis, std::vector<dnnl::memory::desc>(parts.size(), part), engine());
    Builder builder;
    for (size_t i = 0; i < parts.size(); ++i) {
      builder.input(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), part, parts[i]);
    }
    builder.output(DNNL_ARG_DST, plain(whole), dst);
    return builder.finish(dnnl::concat(pd), pd.impl_info_str());
  });
}

OnednnOp onednn_bias_eltwise(int64_t rows, int64_t cols, OnednnEltwise kind, const float* src,
                             const float* bias, float* dst) {
  struct View {
    dnnl::memory::desc data;
    dnnl::memory::desc bias;
  };
  // The same bytes with different descriptions, because the description determines the
  // implementation.
  const std::vector<View> views = {
      {plain({rows, cols}), plain({1, cols})},
      {plain({1, rows, cols}), plain({1, 1, cols})},
      {{{1, cols, rows, 1}, kF32, Tag::nhwc}, {{1, cols, 1, 1}, kF32, Tag::nhwc}},
      {{{1, cols, rows}, kF32, Tag::acb}, {{1, cols, 1}, kF32, Tag::acb}},
  };
  std::vector<OnednnOp> ops;
  for (const View& view : views) {
    ops.push_back(build("oneDNN bias and eltwise",
                        [&] { return binary_add(view.data, view.bias, kind, src, bias, dst); }));
  }
  return fastest(ops);
}

OnednnOp onednn_sum(OnednnReduceOver over, int64_t rows, int64_t cols, const float* src,
                    float* dst) {
  const auto src_desc = plain({rows, cols});
  const auto dst_desc = plain(
      {over == OnednnReduceOver::kRows ? rows : 1, over == OnednnReduceOver::kCols ? cols : 1});
  std::vector<OnednnOp> ops;
  ops.push_back(build("oneDNN reduction", [&]() -> OnednnOp {
    const dnnl::reduction::primitive_desc pd(
        dnnl::reduction::desc(dnnl::algorithm::reduction_sum, src_desc, dst_desc, 0.0f, 0.0f),
        engine());
    Builder builder;
    builder.input(DNNL_ARG_SRC, src_desc, src);
    builder.output(DNNL_ARG_DST, dst_desc, dst);
    return builder.finish(dnnl::reduction(pd), pd.impl_info_str());
  }));
  if (over != OnednnReduceOver::kCols) return ops.front();
  ops.push_back(columns_by_matmul(rows, cols, src, dst));
  return fastest(ops);
}

OnednnOp onednn_permute(const std::vector<int64_t>& dims, const std::vector<int>& perm,
                        const float* src, float* dst) {
  if (perm.size() != dims.size()) return OnednnOp::unsupported("oneDNN permute: bad permutation");
  return build("oneDNN permute", [&]() -> OnednnOp {
    // A reorder keeps the logical axes and changes their strides. The output's strides are those of
    // the permuted tensor, in the order of the source's axes.
    dnnl::memory::dims strides(dims.size());
    int64_t stride = 1;
    for (size_t i = perm.size(); i-- > 0;) {
      const auto axis = static_cast<size_t>(perm[i]);
      strides[axis] = stride;
      stride *= dims[axis];
    }
    const auto src_desc = plain(dims);
    const dnnl::memory::desc dst_desc(dims, kF32, strides);
    const dnnl::reorder::primitive_desc pd(engine(), src_desc, engine(), dst_desc);
    Builder builder;
    builder.input(DNNL_ARG_FROM, src_desc, src);
    builder.output(DNNL_ARG_TO, dst_desc, dst);
    return builder.finish(dnnl::reorder(pd), pd.impl_info_str());
  });
}

}  // namespace heddle::peers
