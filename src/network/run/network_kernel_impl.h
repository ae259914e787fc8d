// The parts of a NetworkKernel: its kernels and the sources of their arrays.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/runtime/family_kernel.h"
#include "network/cut/step_plan.h"
#include "runtime/cuda/device_calls.h"

namespace heddle {

namespace network {

/// The kernels of a step, one unless it depends on the sizes of a call.
struct Step {
  std::vector<Kernel> kernels;
  SizeTree tree = {TreeNode{}};  ///< which of them runs
  const Kernel& at(std::span<const int64_t> sizes) const {
    return kernels[static_cast<size_t>(variant_at(tree, sizes))];
  }
};

}  // namespace network

struct NetworkKernel::Impl {
  /// The buffers of one call.
  struct Frame {
    NDArray arena;
    std::vector<std::vector<NDArray>> arrays;  ///< by step
    std::vector<int64_t> sizes;                ///< sizes that the shapes of `arrays` are for
    uint64_t refreshes = 0;                    ///< refreshes of the kernel when this was made
  };
  std::vector<KernelArg> args;
  std::vector<NDArray> bound;     ///< constants that callers do not pass
  std::vector<KernelSize> sizes;  ///< sizes that calls give; empty: all extents are constant
  std::vector<network::Step> steps;
  std::vector<std::string> names;       ///< names of the steps
  std::vector<std::vector<int>> nodes;  ///< of each step, as positions in Network::nodes()
  NetworkBuildReport report;
  network::StepPlan plan;
  std::unique_ptr<cuda::DeviceCalls> on_gpu;  ///< null: a network for the CPU
  // Never held while a kernel runs, because a kernel may wait for a parallel region whose body
  // calls this network.
  std::mutex mutex;
  std::vector<Frame> free;            ///< as many as there were calls at the same time
  std::vector<NDArray> bound_on_gpu;  ///< copies of `bound`, once a call needed them
  uint64_t refreshes = 0;

  Frame make_frame();
  /// The seconds of each node, of those of each step. Nodes that share a launch have equal parts.
  std::vector<double> by_node(std::span<const double> steps) const;
  /// The sizes of a call with these arrays; empty where all extents are constant.
  std::vector<int64_t> sizes_of(std::span<const NDArray> arrays) const;
  /// Gives the buffers between steps the shapes for these sizes.
  void set_sizes(Frame& frame, std::vector<int64_t> values) const;
  /// The bound constants on the device of the steps.
  std::vector<NDArray> bound_here();

  /// A frame with the caller's arrays. They are removed at the end, so that none is kept alive
  /// until the next call.
  class Call {
   public:
    Call(Impl& impl, std::span<const NDArray> arrays, std::vector<int64_t> sizes)
        : impl_(impl), sizes_(std::move(sizes)) {
      {
        const std::lock_guard lock(impl_.mutex);
        if (!impl_.free.empty()) {
          frame_ = std::move(impl_.free.back());
          impl_.free.pop_back();
        }
      }
      if (frame_.arrays.empty()) frame_ = impl_.make_frame();
      if (!sizes_.empty() && frame_.sizes != sizes_) impl_.set_sizes(frame_, sizes_);
      for (const network::StepPlan::Binding& b : impl_.plan.bindings)
        frame_.arrays[b.step][b.position] = arrays[b.array];
    }
    ~Call() {
      for (const network::StepPlan::Binding& b : impl_.plan.bindings)
        frame_.arrays[b.step][b.position] = NDArray();
      const std::lock_guard lock(impl_.mutex);
      if (frame_.refreshes == impl_.refreshes) impl_.free.push_back(std::move(frame_));
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    void run() const {
      for (size_t i = 0; i < impl_.steps.size(); ++i)
        impl_.steps[i].at(sizes_).call(frame_.arrays[i]);
    }

    const std::vector<int64_t>& sizes() const { return sizes_; }
    const std::vector<std::vector<NDArray>>& arrays() const { return frame_.arrays; }

   private:
    Impl& impl_;
    const std::vector<int64_t> sizes_;
    Frame frame_;
  };
};

}  // namespace heddle
