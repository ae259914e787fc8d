// Networks for a CPU that export_network wrote.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/workspace.h"
#include "heddle/support/error.h"
#include "runtime/exported/errors.h"
#include "runtime/exported/network.h"
#include "runtime/exported/weights.h"
#include "runtime/machine/cpu_features.h"

namespace heddle {
namespace {

class CpuNetwork final : public heddle_network {
 public:
  CpuNetwork(ExportedProgram p, const heddle_code* code, const std::string& weights)
      : heddle_network(std::move(p)),
        code_(code),
        mapped_(weights, program),
        num_inputs_(std::count_if(program.args.begin(), program.args.end(),
                                  [](const KernelArg& a) { return !a.output; })) {
    for (const ExportedStep& step : program.steps) {
      first_.emplace_back();
      for (const ExportedVariant& variant : step.variants) add(variant);
    }
  }

  void run(std::span<const int64_t> sizes, const void* const* inputs, void* const* outputs,
           Device /*device*/) override {
    mapped_.check_length();
    std::unique_ptr<Frame> frame = take_frame();
    for (const Changing& a : arguments_) {
      frame->parameters[a.parameter] =
          a.at < num_inputs_ ? const_cast<void*>(inputs[a.at]) : outputs[a.at - num_inputs_];
    }
    for (const Changing& s : sizes_)
      frame->parameters[s.parameter] = reinterpret_cast<void*>(sizes[static_cast<size_t>(s.at)]);
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const auto v = static_cast<size_t>(variant_at(program.steps[s].tree, sizes));
      const int kernel = program.steps[s].variants[v].kernel;
      if (code_[kernel].entry(frame->parameters.data() + first_[s][v]) == 0) continue;
      throw_runtime_error("out of memory for the temporaries of '" +
                          program.kernels[static_cast<size_t>(kernel)].name + "' of '" +
                          program.name + "'");
    }
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(frame));
  }

 private:
  /// A parameter that each call sets.
  struct Changing {
    size_t parameter;
    int64_t at;  ///< the number of an argument or of a size
  };
  struct Free {
    void operator()(char* block) const { heddle_workspace_free(block); }
  };
  /// The memory of one call.
  struct Frame {
    std::unique_ptr<char, Free> arena;
    std::vector<void*> parameters;  ///< the parameters of all steps, one after the other
  };

  void add(const ExportedVariant& variant) {
    first_.back().push_back(num_parameters_);
    for (const ExportedPlace& place : variant.places) {
      const Changing parameter{num_parameters_++, place.at};
      if (place.where == ExportedPlace::Argument) arguments_.push_back(parameter);
      if (place.where == ExportedPlace::Size) sizes_.push_back(parameter);
    }
  }

  std::unique_ptr<Frame> new_frame() const {
    auto frame = std::make_unique<Frame>();
    if (program.arena_bytes > 0) {
      frame->arena.reset(static_cast<char*>(heddle_workspace_alloc(program.arena_bytes)));
      if (!frame->arena) throw_runtime_error("out of memory for what passes between steps");
    }
    for (const ExportedStep& step : program.steps) {
      for (const ExportedVariant& variant : step.variants) {
        for (const ExportedPlace& p : variant.places) {
          void* to = nullptr;
          if (p.where == ExportedPlace::Arena) to = frame->arena.get() + p.at;
          if (p.where == ExportedPlace::Array)
            to = mapped_.at(program.arrays[static_cast<size_t>(p.at)].at);
          frame->parameters.push_back(to);
        }
      }
    }
    return frame;
  }

  std::unique_ptr<Frame> take_frame() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Frame> frame = std::move(free_.back());
        free_.pop_back();
        return frame;
      }
    }
    return new_frame();
  }

  const heddle_code* code_;
  ExportedWeights mapped_;
  std::ptrdiff_t num_inputs_;
  std::vector<std::vector<size_t>> first_;  ///< the first parameter of each variant of each step
  size_t num_parameters_ = 0;
  std::vector<Changing> arguments_, sizes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> free_;  ///< as many as there were concurrent calls
};

}  // namespace
}  // namespace heddle

extern "C" {

heddle_network* heddle_network_open(const heddle_library* library,
                                    const char* weights) HEDDLE_NOEXCEPT {
  return heddle::open_exported(
      library, weights, [&](heddle::ExportedProgram program, const std::string& path) {
        heddle::internal::require_features("'" + program.name + "'", program.target,
                                           program.features);
        return std::make_shared<heddle::CpuNetwork>(std::move(program), library->code, path);
      });
}

int heddle_network_set_threads(int count) HEDDLE_NOEXCEPT {
  return heddle::succeeds([&] { heddle::set_num_threads(count); }) ? 0 : 1;
}
}
