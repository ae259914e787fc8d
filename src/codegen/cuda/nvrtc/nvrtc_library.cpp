#include "codegen/cuda/nvrtc/nvrtc_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "support/environment.h"

namespace heddle::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                  "libnvrtc.so"};

template <typename F>
bool load(void* library, const char* symbol, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, symbol));
  return function != nullptr;
}

std::unique_ptr<NvrtcApi> open(const std::string& path, std::string& tried) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = ::dlerror();
    tried += "\n    " + (error != nullptr ? std::string(error) : path);
    return nullptr;
  }
  auto api = std::make_unique<NvrtcApi>();
  api->path = path;
  const bool complete = load(library, "nvrtcGetErrorString", api->get_error_string) &&
                        load(library, "nvrtcVersion", api->version) &&
                        load(library, "nvrtcCreateProgram", api->create_program) &&
                        load(library, "nvrtcDestroyProgram", api->destroy_program) &&
                        load(library, "nvrtcCompileProgram", api->compile_program) &&
                        load(library, "nvrtcGetCUBINSize", api->get_cubin_size) &&
                        load(library, "nvrtcGetCUBIN", api->get_cubin) &&
                        load(library, "nvrtcGetProgramLogSize", api->get_log_size) &&
                        load(library, "nvrtcGetProgramLog", api->get_log);
  if (complete) return api;
  tried += "\n    " + path + ": no NVRTC, or one older than CUDA 11.2";
  return nullptr;
}

// Folders that may hold the library, in addition to those of the loader.
std::vector<fs::path> folders() {
  std::vector<fs::path> found;
  for (const char* root : {"CUDA_PATH", "CUDA_HOME"}) {
    const std::string value = internal::environment_value(root);
    if (!value.empty()) found.push_back(fs::path(value) / "lib64");
  }
  found.emplace_back("/usr/local/cuda/lib64");
  // NVIDIA's wheels: <python>/site-packages/nvidia/<package>/lib, cuda_nvrtc or cu13.
  std::vector<fs::path> pythons = {"/usr/local/lib", "/usr/lib", "/opt/conda/lib"};
  for (const char* root : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string value = internal::environment_value(root);
    if (!value.empty()) pythons.insert(pythons.begin(), fs::path(value) / "lib");
  }
  const std::string home = internal::environment_value("HOME");
  if (!home.empty()) pythons.push_back(fs::path(home) / ".local/lib");
  auto entries = [](const fs::path& folder, const std::string& prefix) {
    std::vector<fs::path> list;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (it->path().filename().string().starts_with(prefix)) list.push_back(it->path());
    }
    std::sort(list.begin(), list.end());
    return list;
  };
  for (const fs::path& lib : pythons) {
    for (const fs::path& python : entries(lib, "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : entries(python / packages / "nvidia", "cu")) {
          found.push_back(package / "lib");
        }
      }
    }
  }
  return found;
}

std::unique_ptr<NvrtcApi> search(const std::string& chosen, std::string& tried) {
  std::error_code error;
  std::vector<fs::path> places;
  if (!chosen.empty()) {
    if (!fs::is_directory(chosen, error)) return open(chosen, tried);
    places = {chosen};
  } else {
    for (const char* name : kNames) {
      if (auto api = open(name, tried)) return api;
    }
    places = folders();
  }
  for (const fs::path& folder : places) {
    for (const char* name : kNames) {
      const fs::path file = folder / name;
      if (!fs::exists(file, error)) continue;
      if (auto api = open(file.string(), tried)) return api;
    }
  }
  if (!chosen.empty()) tried += "\n    no libnvrtc.so in the folder " + chosen;
  return nullptr;
}

}  // namespace

const NvrtcApi* find_nvrtc(std::string& reason) {
  struct Found {
    std::unique_ptr<NvrtcApi> api;
    std::string reason;
  };
  static std::mutex mutex;
  // The key is the value of HEDDLE_NVRTC. The map is never freed, because threads may compile while
  // the process ends.
  static auto* const found = new std::map<std::string, Found>;
  const std::lock_guard lock(mutex);
  const std::string chosen = internal::environment_value("HEDDLE_NVRTC");
  const auto [entry, fresh] = found->try_emplace(chosen);
  if (fresh) entry->second.api = search(chosen, entry->second.reason);
  reason = entry->second.api != nullptr ? "" : entry->second.reason;
  return entry->second.api.get();
}

}  // namespace heddle::cuda
