#include "support/files/this_library.h"

#include <dlfcn.h>

namespace heddle::internal {

std::optional<std::filesystem::path> this_library() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&this_library), &info) == 0 || !info.dli_fname)
    return std::nullopt;
  std::error_code error;
  std::filesystem::path path = std::filesystem::canonical(info.dli_fname, error);
  if (error) return std::nullopt;
  return path;
}

}  // namespace heddle::internal
