#include "codegen/cuda/nvrtc/cubin_cache.h"

#include "codegen/cuda/nvrtc/ptxas_log.h"
#include "heddle/codegen/cuda.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "support/environment.h"
#include "support/hashing/hex.h"

namespace heddle::cuda {
namespace {

constexpr std::uintmax_t kMegabytes = 512;

}  // namespace

std::string cubin_key(const std::string& source, const std::string& arch,
                      const std::vector<std::string>& options, int nvrtc_version) {
  // The lengths keep the keys of ("ab", "c") and ("a", "bc") apart.
  std::string all = "heddle " + std::to_string(kCodegenVersion) + " nvrtc " +
                    std::to_string(nvrtc_version) + " " + arch;
  for (const std::string& option : options) {
    all += " " + std::to_string(option.size()) + ":" + option;
  }
  all += "\n" + source;
  return key_of_text(all);
}

std::string cubin_cache_folder() {
  const std::string chosen = internal::environment_value("HEDDLE_CUBIN_CACHE");
  if (chosen.empty()) return cache_folder("cubin");
  return chosen == "off" ? "" : chosen;
}

// An entry is one line of JSON, then the machine code.
std::optional<Cubin> load_cubin(const std::string& key) {
  const std::optional<std::string> content = disk_cubin_cache().load(key).content;
  const std::size_t line = content ? content->find('\n') : std::string::npos;
  if (line == std::string::npos) return std::nullopt;
  try {
    const Json head = Json::parse(std::string_view(*content).substr(0, line));
    Cubin cubin;
    cubin.bytes = content->substr(line + 1);
    cubin.arch = head.at("arch").as_string();
    cubin.log = head.at("log").as_string();
    cubin.compile_s = head.at("compile_s").as_double();
    cubin.kernels = parse_resources(cubin.log);
    cubin.warnings = parse_warnings(cubin.log);
    cubin.cached = true;
    return cubin;
  } catch (const Error&) {  // not JSON, or a missing field
    return std::nullopt;
  }
}

void store_cubin(const std::string& key, const Cubin& cubin) {
  const Json head =
      Json::object({{"arch", cubin.arch}, {"compile_s", cubin.compile_s}, {"log", cubin.log}});
  disk_cubin_cache().store(key, head.dump() + "\n" + cubin.bytes);
}

}  // namespace heddle::cuda

namespace heddle {

DiskCache disk_cubin_cache() {
  return {cuda::cubin_cache_folder(), ".cubin",
          cache_limit("HEDDLE_CUBIN_CACHE_MB", cuda::kMegabytes)};
}

}  // namespace heddle
