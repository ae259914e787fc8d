// Lesson 9: ResNet-18, from operators to a library.
//
// A network of everyday size written with `ops`: a function for a block, a loop over the stages.
// Weights are `constant(array)`: the declaration has their values, so kernels pack them once and an
// export brings them along. Then three steps that every network takes:
//
//   Network        cuts the declaration into tasks; equal layers are one task
//   tune           looks for better schedules, here for seconds only
//   export_network writes a shared library, a C header and a file of weights, which need nothing of
//                  Heddle; this program opens the library and calls it as a C program would
//
//   build/bin/tutorial_09_resnet [seconds of tuning]
//
// Images are 3 x 64 x 64 and weights are random, so that the lesson is short; the layers are those
// of He et al. 2015. The exit code is 0 only if the tuned network and the library agree with the
// static choice.
#include <dlfcn.h>
#include <heddle/heddle.h>
#include <heddle/network/export_network.h>
#include <heddle/network/network.h>
#include <heddle/runtime/timer.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "common/expect.h"

using namespace heddle;

namespace {

// ---- the declaration ---------------------------------------------------------------------------

// Random weights whose sums keep the size of their inputs (He initialisation).
Tensor random_weights(const Extents& shape) {
  static uint64_t seed = 1;
  int64_t terms = 1;
  for (size_t d = 1; d < shape.size(); ++d) terms *= shape[d];
  const double limit = std::sqrt(6.0 / static_cast<double>(terms));
  return constant(NDArray::random(shape, f32, seed++, -limit, limit));
}

// A convolution with a bias: where a batch norm followed, its factors are in the weights.
Tensor conv(const Tensor& x, int64_t channels, int64_t kernel, int64_t stride) {
  const Tensor filters = random_weights({channels, x.extent(1), kernel, kernel});
  const Tensor bias = constant(NDArray::random({channels}, f32, 7, -0.1, 0.1));
  return ops::conv2d(x, filters, {.stride = {stride}, .padding = {kernel / 2}}, bias);
}

// relu(conv(relu(conv(x))) + x). Where the shape changes, x goes through a 1x1 convolution.
Tensor block(const Tensor& x, int64_t channels, int64_t stride) {
  const Tensor inner = conv(ops::relu(conv(x, channels, 3, stride)), channels, 3, 1);
  const bool same = stride == 1 && x.extent(1) == channels;
  return ops::relu(ops::add(inner, same ? x : conv(x, channels, 1, stride)));
}

Tensor resnet18(const Tensor& images) {
  Tensor x = ops::relu(conv(images, 64, 7, 2));
  x = ops::max_pool(x, {.kernel = {3}, .stride = {2}, .padding = {1}});
  for (const int64_t channels : {64, 128, 256, 512}) {
    x = block(x, channels, channels == 64 ? 1 : 2);
    x = block(x, channels, 1);
  }
  x = ops::flatten(ops::global_avg_pool(x));
  return ops::dense(x, random_weights({1000, 512}));
}

// ---- running it --------------------------------------------------------------------------------

double largest_of(const NDArray& array) {
  double largest = 0;
  for (int64_t i = 0; i < array.size(); ++i) largest = std::max(largest, std::abs(array.get(i)));
  return largest;
}

double milliseconds(const NetworkKernel& run, const NDArray& images, const NDArray& scores) {
  return measure([&] { run(images, scores); }, 0.5).median_s * 1e3;
}

// The three functions of out/resnet18.h that a caller needs.
class Library {
 public:
  explicit Library(const std::string& path) : library_(::dlopen(path.c_str(), RTLD_NOW)) {
    HEDDLE_EXPECT(library_ != nullptr, ::dlerror());
    network_ = find<void*(const char*)>("resnet18_open")(nullptr);
    HEDDLE_EXPECT(network_ != nullptr, find<const char*()>("resnet18_error")());
  }
  ~Library() {
    find<void(void*)>("resnet18_close")(network_);
    ::dlclose(library_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void run(const NDArray& images, const NDArray& scores) {
    const std::array<const void*, 1> inputs{images.data()};
    const std::array<void*, 1> outputs{scores.data()};
    using Run = int(void*, const void* const*, void* const*);
    HEDDLE_EXPECT(find<Run>("resnet18_run")(network_, inputs.data(), outputs.data()) == 0,
                  find<const char*()>("resnet18_error")());
  }

 private:
  template <class F>
  F* find(const char* name) {
    return reinterpret_cast<F*>(::dlsym(library_, name));
  }

  void* library_ = nullptr;
  void* network_ = nullptr;
};

void run(double seconds, const std::string& folder) {
  const Tensor images = placeholder({1, 3, 64, 64}, f32, "images");
  const Tensor scores = resnet18(images);
  const std::vector<Tensor> args{images, scores};
  const NDArray x = NDArray::random({1, 3, 64, 64}, f32, 1);
  const NDArray y_static = NDArray::zeros({1, 1000}, f32), y_tuned = NDArray::zeros({1, 1000}, f32),
                y_library = NDArray::zeros({1, 1000}, f32);

  const Network network({scores});
  std::printf("%s\n", network.to_text().c_str());
  Timer timer;
  const NetworkKernel with_rules = network.build(args);
  with_rules(x, y_static);
  std::printf("compiled in %.0f ms, %.2f ms a call\n", timer.elapsed_s() * 1e3,
              milliseconds(with_rules, x, y_static));

  TuneOptions options;
  options.budget = std::chrono::duration<double>(seconds);
  const TuneReport report = tune(network, options);
  const NetworkKernel tuned = network.build(args, report);
  tuned(x, y_tuned);
  std::printf("after %.0f s of tuning %.2f ms a call\n", seconds, milliseconds(tuned, x, y_tuned));

  std::vector<Schedule> schedules;
  for (const TaskResult& task : report.tasks) schedules.push_back(task.schedule);
  timer = Timer();
  const ExportedNetwork written = export_network(network.as_tuned(report), args, folder,
                                                 {.name = "resnet18", .schedules = schedules});
  std::printf("exported in %.0f ms: %s (%ld KB), %s (%ld KB), %s\n", timer.elapsed_s() * 1e3,
              written.library.c_str(), static_cast<long>(written.library_bytes >> 10),
              written.weights.c_str(), static_cast<long>(written.weights_bytes >> 10),
              written.header.c_str());
  Library(written.library).run(x, y_library);

  // Other schedules add in another order.
  const double tolerance = 1e-3 * largest_of(y_static);
  HEDDLE_EXPECT(max_abs_diff(y_tuned, y_static) <= tolerance, "the tuned network's scores differ");
  HEDDLE_EXPECT(max_abs_diff(y_library, y_static) <= tolerance, "the library's scores differ");
  std::printf("all three agree within %.1e\n", tolerance);
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("heddle_resnet18_" + std::to_string(::getpid()));
  int status = 0;
  try {
    run(argc > 1 ? std::atof(argv[1]) : 8, folder.string());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  std::filesystem::remove_all(folder);
  return status;
}
