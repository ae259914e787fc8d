#include "runtime/exported/network.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "heddle/support/error.h"
#include "runtime/exported/errors.h"
#include "runtime/exported/weights.h"

namespace heddle {
namespace {

/// Keeps a network while it is open or a call runs it. A handle that is no open network is found
/// out: a null pointer, a network of another library, or one that was closed, unless another one
/// lies at its address by now.
class OpenNetworks {
 public:
  heddle_network* add(std::shared_ptr<heddle_network> network) {
    const std::unique_lock lock(mutex_);
    heddle_network* handle = network.get();
    networks_[handle] = std::move(network);
    return handle;
  }
  /// Throws a Runtime error where the handle is no open network.
  std::shared_ptr<heddle_network> find(const heddle_network* handle) const {
    if (handle == nullptr) throw_runtime_error("the network is a null pointer");
    const std::shared_lock lock(mutex_);
    const auto at = networks_.find(handle);
    if (at == networks_.end())
      throw_runtime_error("the handle is no network that this library has open");
    return at->second;
  }
  /// A handle that is no open network is left alone.
  void close(const heddle_network* handle) noexcept {
    std::shared_ptr<heddle_network> last;  // it ends after the lock
    const std::unique_lock lock(mutex_);
    const auto at = networks_.find(handle);
    if (at == networks_.end()) return;
    last.swap(at->second);
    networks_.erase(at);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const heddle_network*, std::shared_ptr<heddle_network>> networks_;
};

// Never destroyed: threads may still call, and the driver of a GPU may be gone, while the process
// ends.
auto& open_networks = *new OpenNetworks();

ExportedProgram program_of(const heddle_library& library) {
  if (library.version != kExportedVersion)
    throw_runtime_error(std::string("the library of '") + library.name + "' has version " +
                        std::to_string(library.version) + ", and its runtime knows version " +
                        std::to_string(kExportedVersion));
  return exported_program_from_json(Json::parse(library.program, library.name));
}

/// The sizes in the form in which kernels take them. Throws a Runtime error that names the network
/// and the size where one is out of its range or no such multiple.
std::vector<int64_t> checked_sizes(const ExportedProgram& program, const int64_t* given) {
  std::vector<int64_t> values;
  for (const ExportedSize& size : program.sizes) {
    const int64_t value = given[values.size()];
    if (value >= size.lo && value <= size.hi && value % size.multiple == 0) {
      values.push_back(value / size.multiple);
      continue;
    }
    const std::string multiples =
        size.multiple == 1 ? "" : ", multiples of " + std::to_string(size.multiple) + " only";
    throw_runtime_error("the size '" + size.name + "' is " + std::to_string(value) + ", and '" +
                        program.name + "' is for " + std::to_string(size.lo) + " to " +
                        std::to_string(size.hi) + multiples);
  }
  return values;
}

/// Throws a Runtime error where an array of a call is missing, or its address is not a multiple of
/// the size of its elements.
void check_addresses(const ExportedProgram& program, const void* const* inputs,
                     void* const* outputs) {
  size_t input = 0, output = 0;
  for (const KernelArg& arg : program.args) {
    const void* array = nullptr;
    if (!arg.output && inputs != nullptr) array = inputs[input++];
    if (arg.output && outputs != nullptr) array = outputs[output++];
    const auto refuse = [&](const std::string& why) {
      throw_runtime_error("'" + arg.name + "' of '" + program.name + "' is " + why);
    };
    if (array == nullptr) refuse("given a null pointer");
    if (reinterpret_cast<uintptr_t>(array) % static_cast<uintptr_t>(arg.dtype.bytes()) != 0)
      refuse("not aligned to its elements of " + std::to_string(arg.dtype.bytes()) + " bytes");
  }
}

}  // namespace

heddle_network* open_exported(
    const heddle_library* library, const char* weights,
    FunctionRef<std::shared_ptr<heddle_network>(ExportedProgram, const std::string&)>
        make) noexcept {
  heddle_network* network = nullptr;
  succeeds([&] {
    ExportedProgram program = program_of(*library);
    const std::string path = weights_path(library, library->name, weights);
    network = open_networks.add(make(std::move(program), path));
  });
  return network;
}

void run_exported(const heddle_network* handle, const int64_t* sizes, const void* const* inputs,
                  void* const* outputs, Device device) {
  const std::shared_ptr<heddle_network> network = open_networks.find(handle);
  const std::vector<int64_t> values = checked_sizes(network->program, sizes);
  check_addresses(network->program, inputs, outputs);
  network->run(values, inputs, outputs, device);
}

}  // namespace heddle

extern "C" {

int heddle_network_run(heddle_network* network, const int64_t* sizes, const void* const* inputs,
                       void* const* outputs) HEDDLE_NOEXCEPT {
  const bool done = heddle::succeeds(
      [&] { heddle::run_exported(network, sizes, inputs, outputs, heddle::Device::cpu()); });
  return done ? 0 : 1;
}

void heddle_network_close(heddle_network* network) HEDDLE_NOEXCEPT {
  heddle::open_networks.close(network);
}
}
