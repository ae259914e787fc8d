// The program heddle-worker: a separate process that runs worker_main of the library that started
// it. It loads that library by its path, so the versions are always equal.
#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  constexpr std::string_view kOption = "--library=";
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (!first.starts_with(kOption)) {
    std::fprintf(stderr,
                 "heddle-worker: Heddle starts this program when it tunes\n"
                 "  help: `heddle worker` reads requests from the standard input\n");
    return 2;
  }
  void* library = ::dlopen(std::string(first.substr(kOption.size())).c_str(), RTLD_LAZY);
  using Main = int (*)(int, const char* const*);
  const auto run =
      library ? reinterpret_cast<Main>(::dlsym(library, "heddle_worker_main")) : nullptr;
  if (run == nullptr) {
    std::fprintf(stderr, "heddle-worker: %s\n", ::dlerror());
    return 2;
  }
  return run(argc, argv);
}
