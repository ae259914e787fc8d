// The oneDNN peer: the parts that all ops share, and matrix products.
#include "peers/peer_onednn.h"

#include <dlfcn.h>

#include "peers/peer_onednn_internal.h"

namespace heddle::peers {
namespace onednn_internal {

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

const dnnl::stream& stream() {
  static const dnnl::stream in_order(engine());
  return in_order;
}

dnnl::memory::desc plain(const dnnl::memory::dims& dims) {
  dnnl::memory::dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return {dims, kF32, strides};
}

dnnl::memory::desc images(const dnnl::memory::dims& dims, OnednnLayout layout) {
  if (layout == OnednnLayout::kNchw) return {dims, kF32, Tag::nchw};
  if (layout == OnednnLayout::kNhwc) return {dims, kF32, Tag::nhwc};
  return {dims, kF32, Tag::any};
}

dnnl::memory wrap(const dnnl::memory::desc& desc, const float* data) {
  return dnnl::memory(desc, engine(), const_cast<float*>(data));
}

dnnl::algorithm eltwise_algorithm(OnednnEltwise kind) {
  using dnnl::algorithm;
  switch (kind) {
    case OnednnEltwise::kNone: return algorithm::undef;
    case OnednnEltwise::kRelu: return algorithm::eltwise_relu;
    case OnednnEltwise::kGeluErf: return algorithm::eltwise_gelu_erf;
    case OnednnEltwise::kGeluTanh: return algorithm::eltwise_gelu_tanh;
  }
  return algorithm::undef;
}

dnnl::primitive_attr with_activation(OnednnEltwise kind) {
  dnnl::primitive_attr attributes;
  if (kind != OnednnEltwise::kNone) {
    dnnl::post_ops after;
    after.append_eltwise(1.0f, eltwise_algorithm(kind), 0.0f, 0.0f);
    attributes.set_post_ops(after);
  }
  return attributes;
}

namespace {
void reorder_now(dnnl::memory from, dnnl::memory to) {
  dnnl::stream on = stream();
  dnnl::reorder(from, to).execute(on, from, to);
  on.wait();
}
}  // namespace

Builder::Builder() : state_(std::make_shared<OnednnOp::State>()) { state_->stream = stream(); }

void Builder::input(int argument, const dnnl::memory::desc& have, const dnnl::memory::desc& wanted,
                    const float* data) {
  dnnl::memory memory = wrap(have, data);
  if (have != wanted) {
    dnnl::memory own(wanted, engine());
    reorder_now(memory, own);
    memory = own;
  }
  state_->arguments.insert_or_assign(argument, memory);
}

void Builder::own_input(int argument, const dnnl::memory& memory) {
  state_->arguments.insert_or_assign(argument, memory);
}

void Builder::output(int argument, const dnnl::memory::desc& have, const dnnl::memory::desc& wanted,
                     float* data) {
  dnnl::memory memory = wrap(have, data);
  if (have != wanted) {
    dnnl::memory own(wanted, engine());
    state_->outputs.emplace_back(own, memory);
    memory = own;
  }
  state_->arguments.insert_or_assign(argument, memory);
}

OnednnOp Builder::finish(dnnl::primitive primitive, std::string implementation) {
  state_->primitive = std::move(primitive);
  state_->implementation = std::move(implementation);
  return OnednnOp(std::move(state_));
}

}  // namespace onednn_internal

using namespace onednn_internal;  // NOLINT: the rest of this file is written in its terms

bool onednn_available() { return true; }

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch) + " (" + version.hash + ")";
}

void onednn_set_threads(int threads) {
  // The function is looked up and not linked, because it must belong to the OpenMP runtime that
  // oneDNN uses, whatever compiler builds this file.
  using SetThreads = void (*)(int);
  static const auto set_threads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set_threads != nullptr) set_threads(threads);
}

std::string OnednnOp::implementation() const { return state_ ? state_->implementation : ""; }

void OnednnOp::run() const {
  if (state_->call) {
    state_->call();
    return;
  }
  // The CPU stream is in order. execute() returns when the work is done.
  state_->primitive.execute(state_->stream, state_->arguments);
}

void OnednnOp::read_back() const {
  for (const auto& [from, to] : state_->outputs) reorder_now(from, to);
}

OnednnOp onednn_matmul(const OnednnMatmulSpec& spec, const float* a, const float* b,
                       const float* bias, float* c) {
  return build("oneDNN matmul", [&]() -> OnednnOp {
    const GemmShape& s = spec.shape;
    const bool batched = spec.batch > 1;
    auto dims = [&](int64_t rows, int64_t cols) {
      return batched ? dnnl::memory::dims{spec.batch, rows, cols} : dnnl::memory::dims{rows, cols};
    };
    auto matrix = [&](int64_t rows, int64_t cols, bool transposed) {
      const Tag tag =
          batched ? (transposed ? Tag::acb : Tag::abc) : (transposed ? Tag::ba : Tag::ab);
      return dnnl::memory::desc(dims(rows, cols), kF32, tag);
    };
    const auto a_desc = matrix(s.m, s.k, s.trans_a);
    const auto b_desc = matrix(s.k, s.n, s.trans_b);
    const auto c_desc = matrix(s.m, s.n, false);
    const auto b_wanted =
        spec.packed_weights ? dnnl::memory::desc(dims(s.k, s.n), kF32, Tag::any) : b_desc;
    const auto bias_desc =
        plain(batched ? dnnl::memory::dims{1, 1, s.n} : dnnl::memory::dims{1, s.n});
    const auto desc = bias != nullptr ? dnnl::matmul::desc(a_desc, b_wanted, bias_desc, c_desc)
                                      : dnnl::matmul::desc(a_desc, b_wanted, c_desc);
    const dnnl::matmul::primitive_desc pd(desc, with_activation(spec.activation), engine());
    Builder builder;
    builder.input(DNNL_ARG_SRC, a_desc, a);
    builder.input(DNNL_ARG_WEIGHTS, b_desc, pd.weights_desc(), b);
    if (bias != nullptr) builder.input(DNNL_ARG_BIAS, bias_desc, bias);
    builder.output(DNNL_ARG_DST, c_desc, c);
    return builder.finish(dnnl::matmul(pd), pd.impl_info_str());
  });
}

}  // namespace heddle::peers
