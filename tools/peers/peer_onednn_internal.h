// Shared by the sources of the oneDNN peer; includes oneDNN's headers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"
#include "peers/peer_onednn.h"

namespace heddle::peers {

struct OnednnOp::State {
  dnnl::stream stream;
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::function<void()> call;  // instead of the primitive, when set
  std::string implementation;
  // Reorders of read_back(): from the primitive's own output to the caller's.
  std::vector<std::pair<dnnl::memory, dnnl::memory>> outputs;
};

namespace onednn_internal {

using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr auto kInference = dnnl::prop_kind::forward_inference;

const dnnl::engine& engine();
const dnnl::stream& stream();

dnnl::memory::desc plain(const dnnl::memory::dims& dims);  // row-major
dnnl::memory::desc images(const dnnl::memory::dims& dims, OnednnLayout layout);

// The caller's buffer as a memory object. oneDNN takes inputs as non-const too, and leaves them.
dnnl::memory wrap(const dnnl::memory::desc& desc, const float* data);

dnnl::algorithm eltwise_algorithm(OnednnEltwise kind);
dnnl::primitive_attr with_activation(OnednnEltwise kind);

// Collects the arguments of one primitive. Where the primitive wants another layout than the
// caller's, an input is reordered at once and an output is put on the list of read_back().
class Builder {
 public:
  Builder();
  void input(int argument, const dnnl::memory::desc& have, const dnnl::memory::desc& wanted,
             const float* data);
  void input(int argument, const dnnl::memory::desc& desc, const float* data) {
    input(argument, desc, desc, data);
  }
  void own_input(int argument, const dnnl::memory& memory);
  void output(int argument, const dnnl::memory::desc& have, const dnnl::memory::desc& wanted,
              float* data);
  void output(int argument, const dnnl::memory::desc& desc, float* data) {
    output(argument, desc, desc, data);
  }
  OnednnOp finish(dnnl::primitive primitive, std::string implementation);

 private:
  std::shared_ptr<OnednnOp::State> state_;
};

// Runs a factory's body; what oneDNN refuses becomes an op that says so.
template <typename Body>
OnednnOp build(const char* what, Body&& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    return OnednnOp::unsupported(std::string(what) + ": " + error.what());
  }
}

}  // namespace onednn_internal
}  // namespace heddle::peers
