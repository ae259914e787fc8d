// An emulated GPU: candidates are lowered again and run by the emulator, their times come from a
// hash, and some of them fail on purpose. The tests of measuring and tuning for CUDA share it.
#pragma once

#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"
#include "heddle/driver/build.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/linalg.h"
#include "heddle/support/error.h"
#include "measure/measure_testing.h"
#include "measure/task/reference.h"
#include "measure/task/steps_hash.h"
#include "measure/task/tuning_device.h"
#include "runtime/cuda/cuda_program.h"
#include "support/hashing/hash.h"

namespace heddle::testing {

inline const Target& an_h200() {
  static const Target t = Target::parse("cuda -gpu=h200");
  return t;
}

inline TuneTask gpu_matmul() {
  return make_task("matmul:24x20x32",
                   {ops::matmul(placeholder({24, 20}, f32, "A"), placeholder({20, 32}, f32, "B"))},
                   an_h200());
}

enum class Misbehaves { Hangs, NeverEnds, LosesContext, Dies };

/// Seconds of a call, by the steps.
inline double made_up_seconds(const Json& steps) {
  // Without what is said of where they come from.
  const std::string text = steps.at("steps").dump();
  return 1e-5 * (1 + static_cast<double>(hash_string(text) % 1000) / 1000);
}

class EmulatedDevice : public measuring::TuningDevice {
 public:
  using Faults = std::map<std::string, Misbehaves>;  ///< by steps
  explicit EmulatedDevice(Faults faults = {}) : faults_(std::move(faults)) {}

  void open(const TuneTask& task, const std::vector<NDArray>& inputs, bool) override {
    task_ = &task;
    arrays_ = inputs;
    outputs_.clear();
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const Tensor& t = task.args[i];
      if (!arrays_[i].defined()) arrays_[i] = NDArray::empty(t.extents(), t.dtype());
    }
    for (const Tensor& t : task.tmpl.dag().outputs()) {
      for (size_t i = 0; i < arrays_.size(); ++i) {
        if (task.args[i].same_as(t)) outputs_.push_back(arrays_[i]);
      }
    }
  }

  std::unique_ptr<measuring::DeviceKernel> load(KernelCode code, const Json& steps) override {
    // What came through the processes is what was compiled.
    if (code.cuda->cubin.substr(1, 3) != "ELF") throw_runtime_error("this is no machine code");
    return std::make_unique<Emulated>(*this, steps);
  }
  std::vector<NDArray> outputs(const measuring::Sample& sample) override {
    std::vector<NDArray> out;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const bool whole = sample.empty() || sample[i].empty();
      out.push_back(whole ? outputs_[i] : measuring::gather(outputs_[i], sample[i]));
    }
    return out;
  }
  bool lost() override { return lost_; }

 private:
  class Emulated : public measuring::DeviceKernel {
   public:
    Emulated(EmulatedDevice& of, const Json& steps)
        : of_(of),
          program_(lower_gpu(steps.is_null()
                                 ? naive_schedule(of.task_->tmpl.dag().outputs(), an_h200())
                                 : Schedule::from_json(steps, of.task_->tmpl.dag()),
                             of.task_->args)),
          steps_(steps) {}

    std::optional<double> first_call(double) override {
      if (const auto f = of_.faults_.find(steps_.dump()); f != of_.faults_.end()) {
        switch (f->second) {
          case Misbehaves::Hangs:
            for (;;) ::pause();
          case Misbehaves::NeverEnds: return std::nullopt;
          case Misbehaves::Dies: std::raise(SIGKILL); break;
          case Misbehaves::LosesContext:
            of_.lost_ = true;
            throw_runtime_error("CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access)");
        }
      }
      for (const NDArray& o : of_.outputs_) measuring::poison(o);
      emulate(program_, of_.arrays_);
      return 1e-3;
    }
    double call() override { return made_up_seconds(steps_); }
    std::vector<double> samples(int count, double) override {
      return std::vector<double>(static_cast<size_t>(count), made_up_seconds(steps_));
    }

   private:
    EmulatedDevice& of_;
    GpuProgram program_;
    Json steps_;
  };

  Faults faults_;
  const TuneTask* task_ = nullptr;
  std::vector<NDArray> arrays_, outputs_;
  bool lost_ = false;
};

/// Of workers that have an EmulatedDevice; see emulated_measurer.
WorkerOptions emulated_options(const EmulatedDevice::Faults& faults = {},
                               WorkerOptions options = {}, const std::string& misfortune = "");
/// A measurer whose workers have an EmulatedDevice. `misfortune`: what else goes wrong in them, a
/// name that cuda_testing.cpp knows.
std::unique_ptr<Measurer> emulated_measurer(const EmulatedDevice::Faults& faults = {},
                                            WorkerOptions options = {},
                                            const std::string& misfortune = "");

/// Schedules of the task that a GPU would run, the default first.
inline std::vector<Schedule> gpu_candidates(const TuneTask& task, size_t count) {
  std::vector<Schedule> out;
  for (const Schedule& s : candidates(task, 4 * count)) {
    bool known = false;
    for (const Schedule& o : out)
      known = known || measuring::steps_hash(o) == measuring::steps_hash(s);
    try {
      const GpuProgram p = lower_gpu(s, task.args);
      emit_cuda(p);
      const auto& b = p.main.at(0).block;
      // Few threads: the emulator runs them all.
      if (!out.empty() && b[0] * b[1] * b[2] > 256) continue;
    } catch (const Error&) {
      continue;
    }
    if (!known) out.push_back(s);
    if (out.size() == count) break;
  }
  return out;
}

}  // namespace heddle::testing

#define HEDDLE_SKIP_WITHOUT_NVRTC()         \
  if (!::heddle::cuda::nvrtc_available()) { \
    GTEST_SKIP() << "no NVRTC here";        \
  }
