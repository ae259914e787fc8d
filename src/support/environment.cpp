#include "support/environment.h"

#include <algorithm>
#include <cstdlib>

#include "heddle/support/error.h"

namespace heddle::internal {
namespace {

constexpr EnvironmentVariable kVariables[] = {
    {"CONDA_PREFIX", "a folder in whose Python packages NVRTC is looked for", "none"},
    {"CUDA_HOME", "a CUDA toolkit in which NVRTC is looked for", "none"},
    {"CUDA_PATH", "likewise", "none"},
    {"CXX", "the compiler driver that links exported libraries, with its options", "c++"},
    {"HEDDLE_CACHE", "the folder of caches of compiled code and packed weights; off: none",
     "~/.cache/heddle, or heddle below XDG_CACHE_HOME"},
    {"HEDDLE_CACHE_MB", "MiB that compiled kernels for CPUs may take", "1024"},
    {"HEDDLE_COLLECT",
     "heuristics (contraction,alternative) whose problems are logged below HEDDLE_LEARNED, for "
     "`heddle learn`",
     "none"},
    {"HEDDLE_CUBIN_CACHE", "the folder of compiled CUDA kernels; off: none",
     "cubin below HEDDLE_CACHE"},
    {"HEDDLE_CUBIN_CACHE_MB", "MiB that compiled CUDA kernels may take", "512"},
    {"HEDDLE_FLEET", "the program that starts fleets", "heddle-fleet beside the library"},
    {"HEDDLE_HEURISTICS",
     "heuristics that may answer in place of their rules: all but some (-reduction,-location), "
     "some "
     "alone (contraction,alternative), or off",
     "all that were learned"},
    {"HEDDLE_LEARNED", "the folder of what `heddle learn` found on this machine; off: none",
     "~/.local/share/heddle, or heddle below XDG_DATA_HOME"},
    {"HEDDLE_LIBCUDA", "the library of the NVIDIA driver", "libcuda.so.1"},
    {"HEDDLE_LOG",
     "what is printed to standard error: a level for all parts (1), or parts with "
     "levels (records:1,picks:2)",
     "nothing"},
    {"HEDDLE_LOG_FILE", "the user's log of tuning records, which answers before shipped records",
     "none"},
    {"HEDDLE_NVRTC", "the library of NVRTC", "that of the CUDA toolkit or of a Python wheel"},
    {"HEDDLE_PICK", "the variant that multi-kernels take: NAME, or kernel=NAME,other=NAME",
     "the one that was picked"},
    {"HEDDLE_PICKS", "the folder of the picks of multi-kernels", "picks below HEDDLE_CACHE"},
    {"HEDDLE_PICK_LOG", "a file to which each pick appends a line", "none"},
    {"HEDDLE_PYTHON", "the Python of fleets", "python3"},
    {"HEDDLE_TOPHUB", "folders or files of shipped records, with colons; off: none",
     "share/heddle/tophub beside the library"},
    {"HEDDLE_VERIFY", "1: LLVM checks each module before it compiles it", "0"},
    {"HEDDLE_WEIGHTS_CACHE_MB", "MiB that the cache of packed weights may take", "4096"},
    {"HEDDLE_WORKER", "the program that measures candidates", "heddle-worker beside the library"},
    {"HOME", "the folder of .cache and .local, and of Python packages in which NVRTC is looked for",
     "no caches"},
    {"TERM", "dumb: progress is printed as lines", "progress is one line that changes"},
    {"VIRTUAL_ENV", "a folder in whose Python packages NVRTC is looked for", "none"},
    {"XDG_CACHE_HOME", "the folder of the user's caches", "~/.cache"},
    {"XDG_DATA_HOME", "the folder of the user's data", "~/.local/share"},
};

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

std::string environment_value(std::string_view name) {
  const auto* known = std::find_if(std::begin(kVariables), std::end(kVariables),
                                   [&](const EnvironmentVariable& v) { return name == v.name; });
  HEDDLE_ICHECK(known != std::end(kVariables),
                "the environment variable " + std::string(name) + " is in no table");
  const char* value = std::getenv(known->name);
  return value != nullptr ? value : "";
}

}  // namespace heddle::internal
