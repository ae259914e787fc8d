#include "measure/task/tuning_device.h"

#include <algorithm>
#include <cmath>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "measure/task/device_gather.h"
#include "measure/task/measured_task.h"
#include "runtime/cuda/one_call.h"

namespace heddle::measuring {
namespace {

constexpr int kDevice = 0;
constexpr int kMostLaunches = 4096;
constexpr int kMostSets = 1024;
// The largest share of the device's memory for copies of the arguments.
constexpr double kSetsShare = 0.25;

using Sets = std::vector<std::vector<NDArray>>;

/// A value that kernels do not compute: NaN, or an unlikely integer.
double poison_of(DataType type) {
  if (type == boolean) return 1;
  if (type.is_float()) return std::nan("");
  return 85;
}

class GpuKernelOnDevice : public DeviceKernel {
 public:
  GpuKernelOnDevice(KernelCode code, const Sets& sets, const std::vector<NDArray>& outputs)
      : sets_(sets), outputs_(outputs) {
    const Kernel kernel(std::move(code));
    // The constants of each set are packed once, because one kernel remembers only a few sets.
    for (size_t i = 0; i < sets_.size(); ++i) {
      kernels_.push_back(kernel.has_persistent() && i > 0 ? kernel.clone() : kernel);
    }
  }

  std::optional<double> first_call(double allowed) override {
    const Timer timer;
    for (const NDArray& o : outputs_) o.fill(poison_of(o.dtype()));
    call_set(0);
    const cuda::Event end(kDevice);
    end.record();
    if (end.wait_for(allowed)) return timer.elapsed_s();
    cuda::abandon(kDevice, "kernel '" + kernels_[0].name() + "' did not end within " +
                               std::to_string(allowed) + " s");
    return std::nullopt;
  }

  double call() override {
    const cuda::Event begin(kDevice), end(kDevice);
    begin.record();
    call_set(0);
    end.record();
    end.synchronize();
    return once_ = end.seconds_since(begin);
  }

  std::vector<double> samples(int count, double seconds) override {
    if (!graph_) capture(seconds);
    const cuda::StreamScope scope(*stream_);
    std::vector<cuda::Event> marks;
    for (int i = 0; i <= count; ++i) marks.emplace_back(kDevice);
    // A graph ahead of the timed ones keeps the GPU busy while the host fills the queue, and leaves
    // the caches as this candidate leaves them.
    graph_->launch(*stream_);
    marks[0].record(*stream_);
    for (int i = 1; i <= count; ++i) {
      graph_->launch(*stream_);
      marks[static_cast<size_t>(i)].record(*stream_);
    }
    marks.back().synchronize();
    std::vector<double> out;
    for (size_t i = 1; i < marks.size(); ++i) {
      out.push_back(marks[i].seconds_since(marks[i - 1]) / launches_);
    }
    return out;
  }

 private:
  void call_set(size_t i) { kernels_[i % sets_.size()].call(sets_[i % sets_.size()]); }

  // The graph goes through the sets a whole number of times, so that the next graph begins with the
  // first set.
  void capture(double seconds) {
    cuda::synchronize(kDevice);
    stream_.emplace(kDevice);
    const cuda::StreamScope scope(*stream_);
    for (size_t i = 0; i < sets_.size(); ++i) {
      if (kernels_[i].has_persistent()) kernels_[i].prepare(sets_[i]);
    }
    const double wanted = std::ceil(seconds / std::max(once_, 1e-6));
    const double sets = static_cast<double>(sets_.size());
    launches_ = static_cast<int>(
        std::min<double>(std::max(1.0, std::ceil(wanted / sets)) * sets, kMostLaunches));
    graph_ = cuda::capture(
        [&] {
          const cuda::OneCall one;
          for (int i = 0; i < launches_; ++i) call_set(static_cast<size_t>(i));
        },
        kDevice);
    graph_->upload(*stream_);
  }

  const Sets& sets_;
  const std::vector<NDArray>& outputs_;
  std::vector<Kernel> kernels_;
  std::optional<cuda::Stream> stream_;
  std::optional<cuda::Graph> graph_;
  double once_ = 0;
  int launches_ = 1;
};

class Gpu0 : public TuningDevice {
 public:
  void open(const TuneTask& task, const std::vector<NDArray>& inputs, bool cold) override {
    sets_.clear();
    outputs_.clear();
    const Device device = Device::cuda(kDevice);
    std::vector<NDArray> first;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = task.args[i];
      first.push_back(is_output(t) ? NDArray::empty(t.extents(), t.dtype(), device)
                                   : inputs[i].to_device(device));
    }
    for (const Tensor& t : task.tmpl.dag().outputs()) {
      for (size_t i = 0; i < first.size(); ++i) {
        if (task.args[i].same_as(t)) outputs_.push_back(first[i]);
      }
    }
    sets_ = {first};
    if (!cold) return;
    int64_t bytes = 1;
    for (const NDArray& a : first) bytes += a.bytes();
    const cuda::DeviceInfo info = cuda::devices().at(kDevice);
    const double room = kSetsShare * static_cast<double>(info.memory_bytes);
    const int most =
        static_cast<int>(std::clamp<double>(room / static_cast<double>(bytes), 1, kMostSets));
    sets_ = cuda::rotated_arguments(first, 2 * int64_t{info.l2_bytes} + 1, most);
    cuda::synchronize(kDevice);
  }

  std::unique_ptr<DeviceKernel> load(KernelCode code, const Json&) override {
    return std::make_unique<GpuKernelOnDevice>(std::move(code), sets_, outputs_);
  }

  std::vector<NDArray> outputs(const Sample& sample) override {
    std::vector<NDArray> out;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const bool whole = sample.empty() || sample[i].empty();
      out.push_back(whole ? outputs_[i].to_host() : gather_(outputs_[i], sample[i]));
    }
    return out;
  }

  bool lost() override { return cuda::context_lost(kDevice); }

 private:
  Sets sets_;
  std::vector<NDArray> outputs_;  ///< the outputs of the first set
  DeviceGather gather_{kDevice};
};

}  // namespace

std::unique_ptr<TuningDevice> make_gpu_device() { return std::make_unique<Gpu0>(); }

}  // namespace heddle::measuring
