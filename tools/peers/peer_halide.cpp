#include "peers/peer_halide.h"

#ifndef HEDDLE_HAVE_HALIDE

namespace heddle::peers {
bool halide_available() { return false; }
HalideOp halide_matmul(const GemmShape&, int, const float*, const float*, float*) {
  return {nullptr, "built without Halide"};
}
HalideOp halide_conv(const HalideConv&, int, const float*, const float*, float*) {
  return {nullptr, "built without Halide"};
}
}  // namespace heddle::peers

#else

#include <HalideRuntime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

namespace heddle::peers {
namespace {

namespace fs = std::filesystem;

fs::path compiler() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path() / "halide_adams2019";
}

using Entry = int (*)(halide_buffer_t*, halide_buffer_t*, halide_buffer_t*);
using SetThreads = int (*)(int);

// A dense f32 array, innermost dimension first.
struct Array {
  halide_buffer_t buffer{};
  std::vector<halide_dimension_t> dims;

  Array(const float* data, const std::vector<int64_t>& extents) {
    int32_t stride = 1;
    for (const int64_t extent : extents) {
      dims.emplace_back(0, static_cast<int32_t>(extent), stride);
      stride *= static_cast<int32_t>(extent);
    }
    buffer.host = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(data));
    buffer.type = halide_type_t(halide_type_float, 32, 1);
    buffer.dimensions = static_cast<int32_t>(dims.size());
    buffer.dim = dims.data();
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
};

struct Call {
  void* library = nullptr;
  Entry entry = nullptr;
  std::vector<std::unique_ptr<Array>> arrays;
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (library != nullptr) dlclose(library);  // ends the threads of its runtime
  }
};

HalideOp load(const std::string& what, int threads, std::vector<std::unique_ptr<Array>> arrays) {
  const char* cache = std::getenv("HEDDLE_HALIDE_CACHE");
  std::string name = what + " " + std::to_string(threads) + ".so";
  for (char& c : name) c = c == ' ' ? '_' : c;
  const fs::path folder = cache != nullptr ? fs::path(cache)
                                           : fs::temp_directory_path() /
                                                 ("heddle_halide_" + std::to_string(::getpid()));
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::path path = folder / name;
  if (!fs::exists(path)) {
    const std::string command = "timeout 60 '" + compiler().string() + "' '" + path.string() +
                                "' " + std::to_string(threads) + " " + what + " >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0) {
      return {nullptr, "the autoscheduler failed, or took more than a minute, on " + what};
    }
  }
  auto call = std::make_shared<Call>();
  call->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (cache == nullptr) fs::remove_all(folder, error);
  if (call->library == nullptr) return {nullptr, dlerror()};
  call->entry = reinterpret_cast<Entry>(dlsym(call->library, "heddle_halide_peer"));
  const auto set_threads =
      reinterpret_cast<SetThreads>(dlsym(call->library, "halide_set_num_threads"));
  if (call->entry == nullptr || set_threads == nullptr) return {nullptr, "an incomplete library"};
  set_threads(threads);
  call->arrays = std::move(arrays);
  return {[call] {
            auto buffer = [&](size_t i) { return &call->arrays[i]->buffer; };
            call->entry(buffer(0), buffer(1), buffer(2));
          },
          ""};
}

std::string words(const char* kind, const std::vector<int64_t>& numbers) {
  std::string out = kind;
  for (const int64_t n : numbers) out += " " + std::to_string(n);
  return out;
}

}  // namespace

bool halide_available() { return fs::exists(compiler()); }

HalideOp halide_matmul(const GemmShape& s, int threads, const float* a, const float* b, float* c) {
  if (s.trans_a || s.trans_b) return {nullptr, "the pipeline takes no transposed operands"};
  std::vector<std::unique_ptr<Array>> arrays;
  arrays.push_back(std::make_unique<Array>(a, std::vector{s.k, s.m}));
  arrays.push_back(std::make_unique<Array>(b, std::vector{s.n, s.k}));
  arrays.push_back(std::make_unique<Array>(c, std::vector{s.n, s.m}));
  return load(words("matmul", {s.m, s.n, s.k}), threads, std::move(arrays));
}

HalideOp halide_conv(const HalideConv& v, int threads, const float* x, const float* weight,
                     float* y) {
  std::vector<std::unique_ptr<Array>> arrays;
  const int64_t out_w = (v.w - v.s) / v.stride + 1, out_h = (v.h - v.r) / v.stride + 1;
  arrays.push_back(std::make_unique<Array>(x, std::vector{v.c, v.w, v.h}));
  arrays.push_back(std::make_unique<Array>(weight, std::vector{v.k, v.c, v.s, v.r}));
  arrays.push_back(std::make_unique<Array>(y, std::vector{v.k, out_w, out_h}));
  return load(words("conv2d", {v.c, v.h, v.w, v.k, v.r, v.s, v.stride}), threads,
              std::move(arrays));
}

}  // namespace heddle::peers

#endif
