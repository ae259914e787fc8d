// The oneDNN peer of a build without oneDNN: every op reports that.
#include "peers/peer_onednn.h"

namespace heddle::peers {
namespace {
OnednnOp absent() { return OnednnOp::unsupported("built without oneDNN"); }
}  // namespace

struct OnednnOp::State {};

bool onednn_available() { return false; }
std::string onednn_version() { return {}; }
void onednn_set_threads(int) {}

std::string OnednnOp::implementation() const { return {}; }
void OnednnOp::run() const {}
void OnednnOp::read_back() const {}

OnednnOp onednn_matmul(const OnednnMatmulSpec&, const float*, const float*, const float*, float*) {
  return absent();
}
OnednnOp onednn_conv(const OnednnConvSpec&, const float*, const float*, const float*, float*) {
  return absent();
}
OnednnOp onednn_matmul_of(const OnednnMatmulSpec&, const OnednnTypes&, const void*, const void*,
                          void*) {
  return absent();
}
OnednnOp onednn_gemm_s32(const GemmShape&, OnednnType, const void*, const int8_t*, int32_t*) {
  return absent();
}
OnednnOp onednn_conv_of(const OnednnConvSpec&, const OnednnTypes&, bool, const void*, const void*,
                        void*) {
  return absent();
}
OnednnOp onednn_pool(const OnednnPoolSpec&, const float*, float*) { return absent(); }
OnednnOp onednn_resize(const OnednnResizeSpec&, const float*, float*) { return absent(); }
OnednnOp onednn_softmax(int64_t, int64_t, const float*, float*) { return absent(); }
OnednnOp onednn_logsoftmax(int64_t, int64_t, const float*, float*) { return absent(); }
OnednnOp onednn_layer_norm(int64_t, int64_t, float, const float*, const float*, const float*,
                           float*) {
  return absent();
}
OnednnOp onednn_add_relu(const std::vector<int64_t>&, const float*, const float*, float*) {
  return absent();
}
OnednnOp onednn_concat(int64_t, int64_t, int, const std::vector<const float*>&, float*) {
  return absent();
}
OnednnOp onednn_bias_eltwise(int64_t, int64_t, OnednnEltwise, const float*, const float*, float*) {
  return absent();
}
OnednnOp onednn_sum(OnednnReduceOver, int64_t, int64_t, const float*, float*) { return absent(); }
OnednnOp onednn_permute(const std::vector<int64_t>&, const std::vector<int>&, const float*,
                        float*) {
  return absent();
}

}  // namespace heddle::peers
