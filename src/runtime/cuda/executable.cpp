#include "runtime/cuda/executable.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

#include "heddle/support/error.h"
#include "runtime/cuda/callers_capture.h"
#include "runtime/cuda/capture.h"
#include "runtime/cuda/launch_record.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/one_call.h"
#include "runtime/cuda/size_expr.h"
#include "runtime/cuda/tensor_map.h"
#include "support/stack_array.h"

namespace heddle::cuda {
namespace {

// The largest number of buffers of a call that needs no heap allocation.
constexpr std::size_t kOnStack = 64;

}  // namespace

struct Executable::Loaded {
  struct Step {
    Launcher launcher;
    Launcher after_all;  // the same, begun when all work before it has ended
    const Launch* launch = nullptr;
  };
  DeviceState* device = nullptr;
  Module module;
  std::vector<Step> main, prepare;

  std::mutex mutex;
  struct Scratch {
    api::StreamHandle stream = nullptr;
    const std::vector<Workspace>* wanted = nullptr;
    std::vector<NDArray> arrays;
  };
  std::deque<Scratch>
      scratch;  // one for each stream, because calls on two streams may run at the same time

  void load(const std::vector<Launch>& launches, std::vector<Step>& steps) const {
    for (const Launch& launch : launches) {
      const Function function = module.function(launch.kernel);
      const auto launcher = [&](bool overlaps) {
        return Launcher(*device, static_cast<api::FunctionHandle>(function.handle()),
                        &function.name(), launch.dynamic_smem, launch.cluster, overlaps);
      };
      steps.push_back({launcher(launch.overlaps), launcher(false), &launch});
    }
  }

  // The workspaces are zeroed at once and not in the current stream, because a captured graph would
  // zero them at each replay.
  std::vector<NDArray> allocate(const std::vector<Workspace>& workspaces) const {
    std::vector<NDArray> arrays;
    const int index = device->index;
    device->enter();
    const BesideCaptures beside(*device);
    const Stream side(index);
    std::optional<StreamScope> on_side;
    // The block may have belonged to another array, and work on that may still be in the stream.
    // A stream that the caller captures cannot be waited for, and none of its blocks is taken.
    if (caller_captures(index)) {
      on_side.emplace(side);
    } else if (capture_of(index) == nullptr) {
      device->check(device->api->stream_synchronize(current_stream(index)), "cuStreamSynchronize");
    }
    for (const Workspace& w : workspaces) {
      arrays.push_back(NDArray::empty({w.bytes}, u8, Device::cuda(index)));
      if (!w.zeroed) continue;
      device->check(
          device->api->memset_d8_async(reinterpret_cast<api::DevicePtr>(arrays.back().data()), 0,
                                       static_cast<std::size_t>(w.bytes),
                                       static_cast<api::StreamHandle>(side.handle())),
          "zeroing a workspace");
    }
    side.synchronize();
    return arrays;
  }

  const std::vector<NDArray>& workspaces(const std::vector<Workspace>& wanted,
                                         api::StreamHandle stream) {
    if (CaptureState* capture = capture_of(device->index)) {
      const auto [found, fresh] = capture->captured.workspaces.try_emplace(&wanted);
      if (fresh) found->second = allocate(wanted);
      return found->second;
    }
    const std::lock_guard lock(mutex);
    for (const Scratch& s : scratch) {
      if (s.stream == stream && s.wanted == &wanted) return s.arrays;
    }
    scratch.push_back({stream, &wanted, allocate(wanted)});
    return scratch.back().arrays;  // its address is stable
  }
};

namespace {

// The blocks of a launch at these sizes. A launch without blocks is left out.
std::array<unsigned, 3> grid_at(const Launch& launch, std::span<const std::int64_t> sizes) {
  std::array<unsigned, 3> grid = launch.grid;
  for (std::size_t d = 0; d < 3; ++d) {
    if (!launch.grid_of[d].items.empty())
      grid[d] = static_cast<unsigned>(evaluate(launch.grid_of[d], sizes));
  }
  return grid;
}

std::int64_t round_up(std::int64_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

/// The workspaces of a launch: those of `scratch`, where there is one, and `own`.
struct WorkspacesOfCall {
  const std::vector<Workspace>& all;
  std::span<const NDArray> own;
  char* scratch = nullptr;

  void fill(void** buffers) const {
    char* next = scratch;
    auto kept = own.begin();
    for (const Workspace& w : all) {
      if (scratch == nullptr || w.zeroed) {
        *buffers++ = (kept++)->data();
      } else {
        *buffers++ = next;
        next += round_up(w.bytes);
      }
    }
  }
};

// Puts the steps into the stream, or into the record where there is one. `given` are arguments and
// persistent buffers. The `first` launch of a call begins when all work before it has ended: kernels read constants
// before the kernel before theirs has ended. In a call that one writes none; what comes before the call may.
template <typename Steps>
void launch_all(DeviceState& device, const Steps& steps, std::span<void* const> given,
                const WorkspacesOfCall& workspaces, std::span<const std::int64_t> sizes,
                std::size_t most_params, api::StreamHandle stream, bool first = false,
                LaunchRecord* record = nullptr) {
  StackArray<void*, kOnStack> buffers(given.size() + workspaces.all.size()), params(most_params);
  std::copy(given.begin(), given.end(), buffers.data());
  workspaces.fill(buffers.data() + given.size());
  for (const auto& step : steps) {
    const Launcher& launcher = std::exchange(first, false) ? step.after_all : step.launcher;
    const std::vector<int>& wanted = step.launch->buffers;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      params[i] = &buffers[static_cast<std::size_t>(wanted[i])];
    }
    // The driver copies the parameters at the launch.
    std::array<api::TensorMapBytes, kMostMaps> maps;
    for (std::size_t i = 0; i < step.launch->maps.size(); ++i) {
      const TensorMap& map = step.launch->maps[i];
      maps[i] = encode(device, map, buffers[static_cast<std::size_t>(map.buffer)], sizes);
      params[wanted.size() + i] = &maps[i];
    }
    void** const behind = params.data() + wanted.size() + step.launch->maps.size();
    for (std::size_t i = 0; i < step.launch->sizes.size(); ++i) {
      // The driver reads parameters only.
      behind[i] = const_cast<std::int64_t*>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
          &sizes[static_cast<std::size_t>(step.launch->sizes[i])]);
    }
    const std::array<unsigned, 3> grid = grid_at(*step.launch, sizes);
    if (record == nullptr) {
      launcher.launch(grid, step.launch->block, params.data(), stream);
    } else {
      const std::size_t maps = step.launch->maps.size(),
                        count = wanted.size() + maps + step.launch->sizes.size();
      record->add(launcher, grid, step.launch->block, {params.data(), count}, wanted.size(), maps);
    }
  }
}

}  // namespace

std::int64_t scratch_bytes(const Program& program) {
  std::int64_t bytes = 0;
  for (const Workspace& w : program.workspaces) {
    if (!w.zeroed) bytes += round_up(w.bytes);
  }
  return bytes;
}

bool calls_read(const Program& program, std::size_t buffer) {
  const int wanted = static_cast<int>(buffer);
  return std::any_of(program.launches.begin(), program.launches.end(), [&](const Launch& launch) {
    const auto is_wanted = [&](const TensorMap& map) { return map.buffer == wanted; };
    return std::count(launch.buffers.begin(), launch.buffers.end(), wanted) > 0 ||
           std::any_of(launch.maps.begin(), launch.maps.end(), is_wanted);
  });
}

Executable::Executable(std::shared_ptr<const Program> program, std::string name, std::size_t args,
                       std::size_t persistent)
    : program_(std::move(program)), name_(std::move(name)), args_(args + persistent) {
  for (const std::vector<Launch>* launches : {&program_->launches, &program_->prepare}) {
    for (const Launch& launch : *launches) {
      check(launch);
      most_params_ =
          std::max(most_params_, launch.buffers.size() + launch.maps.size() + launch.sizes.size());
    }
  }
  std::ranges::copy_if(program_->workspaces, std::back_inserter(zeroed_), &Workspace::zeroed);
  HEDDLE_ICHECK(persistent == 0 || has_prepare(),
                "kernel '" + name_ + "' has persistent buffers that nothing computes");
}

Executable::~Executable() {
  for (std::atomic<Loaded*>& l : loaded_) delete l.load();
}

void Executable::check(const Launch& launch) const {
  const std::size_t total = args_ + program_->workspaces.size();
  for (int b : launch.buffers) {
    HEDDLE_ICHECK(b >= 0 && static_cast<std::size_t>(b) < total,
                  "kernel '" + launch.kernel + "' is given buffer " + std::to_string(b) + " of " +
                      std::to_string(total));
  }
  HEDDLE_ICHECK(launch.maps.size() <= kMostMaps, "kernel '" + launch.kernel + "' is given " +
                                                     std::to_string(launch.maps.size()) +
                                                     " tensor maps");
  for (const TensorMap& map : launch.maps) {
    HEDDLE_ICHECK(map.buffer >= 0 && static_cast<std::size_t>(map.buffer) < total,
                  "a tensor map of kernel '" + launch.kernel + "' is of no buffer");
    check_map(map, launch.kernel);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    HEDDLE_ICHECK(launch.grid[i] > 0 && launch.block[i] > 0,
                  "kernel '" + launch.kernel + "' is launched with no blocks or no threads");
  }
  HEDDLE_ICHECK(launch.cluster > 0 && launch.grid[0] % launch.cluster == 0,
                "kernel '" + launch.kernel + "': the grid is no multiple of the cluster");
}

Executable::Loaded& Executable::loaded(int device) const {
  if (device < 0 || device >= kMostDevices) {
    throw_runtime_error("there is no " + to_string(Device::cuda(device)));
  }
  std::atomic<Loaded*>& slot = loaded_[static_cast<std::size_t>(device)];
  if (Loaded* ready = slot.load(std::memory_order_acquire)) return *ready;
  const std::lock_guard lock(mutex_);
  if (Loaded* ready = slot.load()) return *ready;
  auto fresh = std::make_unique<Loaded>();
  fresh->device = &device_state(device);
  fresh->module = Module::load(program_->cubin, device, name_);
  fresh->load(program_->launches, fresh->main);
  fresh->load(program_->prepare, fresh->prepare);
  slot.store(fresh.get(), std::memory_order_release);
  return *fresh.release();
}

void Executable::run(int device, std::span<void* const> buffers,
                     std::span<const std::int64_t> sizes, char* scratch) const {
  if (program_->launches.empty()) return;  // no output of the program has an element
  Loaded& l = loaded(device);
  LaunchRecord* const record = record_of(device);
  if (record == nullptr) l.device->enter();  // a record needs no context
  const api::StreamHandle stream = current_stream(device);
  const std::vector<Workspace>& wanted = scratch == nullptr ? program_->workspaces : zeroed_;
  WorkspacesOfCall workspaces{program_->workspaces, {}, scratch};
  if (!wanted.empty()) workspaces.own = l.workspaces(wanted, stream);
  launch_all(*l.device, l.main, buffers, workspaces, sizes, most_params_, stream, OneCall::begins(),
             record);
}

void Executable::prepare(int device, std::span<void* const> buffers) const {
  Loaded& l = loaded(device);
  l.device->enter();
  const std::vector<NDArray> workspaces = l.allocate(program_->workspaces);
  // Work that fills the constant arguments may still be in the current stream.
  if (capture_of(device) == nullptr) {
    l.device->check(l.device->api->stream_synchronize(current_stream(device)),
                    "cuStreamSynchronize");
  }
  const Stream side(device);
  launch_all(*l.device, l.prepare, buffers, {program_->workspaces, workspaces}, {}, most_params_,
             static_cast<api::StreamHandle>(side.handle()));
  side.synchronize();
}

}  // namespace heddle::cuda
