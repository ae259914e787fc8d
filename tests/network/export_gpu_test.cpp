// Networks for GPUs as libraries. A fake driver replaces NVIDIA's, and the emulator runs the
// programs of its kernels.
#include <filesystem>

#include "heddle/network/export_network.h"
#include "network/exported_library.h"
#include "network/fake_libcuda.h"
#include "network/network_testing.h"
#include "runtime/cuda/captured_by_caller.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// Two products with one matrix, and a classifier whose weights are scaled ahead of all calls.
struct SmallNetwork {
  Tensor image = placeholder({4, 40}, f32, "image");
  Tensor square = constant(NDArray::random({40, 40}, f32, 7), "square");
  Tensor weights = constant(NDArray::random({40, 24}, f32, 8), "weights");
  Tensor hidden, scores;

  SmallNetwork() {
    const Tensor first = ops::relu(ops::matmul(image, square));
    hidden = ops::relu(ops::matmul(first, square));
    const Tensor scaled =
        compute({40, 24}, [&](Axis k, Axis c) { return weights(k, c) * 0.125f; }, "scaled");
    scores = ops::softmax(ops::matmul(hidden, scaled));
  }
  std::vector<Tensor> outputs() const { return {scores, hidden}; }
  std::vector<Tensor> args() const { return {image, scores, hidden}; }
};

class ExportGpuNetwork : public FakeLibcuda {
 protected:
  ExportedNetwork write(const Network& network) const {
    return export_network(network, net_.args(), folder_, {.name = "small"});
  }

  std::vector<NDArray> fresh_outputs() const {
    std::vector<NDArray> made;
    for (const Tensor& t : net_.outputs()) made.push_back(NDArray::full(t.extents(), f32, 77));
    return made;
  }

  std::vector<NDArray> called(const ExportedLibrary& library, void* network,
                              const NDArray& image) const {
    const std::vector<NDArray> made = fresh_outputs();
    const void* inputs[] = {image.data()};
    void* outputs[] = {made[0].data(), made[1].data()};
    EXPECT_EQ(library.run(network, inputs, outputs), 0) << library.error();
    return made;
  }
  void expect_right(const std::vector<NDArray>& got, const NDArray& image) const {
    const std::vector<NDArray> want = interpret(net_.outputs(), {{net_.image, image}});
    for (size_t o = 0; o < want.size(); ++o)
      EXPECT_TRUE(allclose(got[o], want[o], 1e-4, 1e-5)) << o;
  }

  /// The network in a library that is open until the end of the scope.
  class Opened {
   public:
    explicit Opened(const ExportGpuNetwork& test, const Network& network)
        : library(test.write(network).library, "small"), handle(library.open(nullptr)) {
      EXPECT_NE(handle, nullptr) << library.error();
    }
    ~Opened() { library.close(handle); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

    const ExportedLibrary library;
    void* const handle;
    using Run = int(void*, const void* const*, void* const*, void*);  // the last one is a stream
    Run* const run_on_gpu = library.find<Run>("small_run_on_gpu");
  };

  SmallNetwork net_;
};

TEST_F(ExportGpuNetwork, ComputesWhatTheInterpreterDoes) {
  const Network network(net_.outputs(), gpu_);
  emulate_network(network);
  EXPECT_GE(prepared_, 1U) << "the test is to prepare constants";
  const ExportedLibrary library(write(network).library, "small");
  const int modules = driver_->modules;
  void* handle = library.open(nullptr);
  ASSERT_NE(handle, nullptr) << library.error();
  EXPECT_GT(driver_->modules, modules) << "code is loaded when the network is opened";
  const int graphs = driver_->calls["graph_launch"];
  for (uint64_t seed : {1, 2, 3}) {
    const NDArray image = random_like(net_.image, seed);
    expect_right(called(library, handle, image), image);
  }
  // The caller's arrays were others each time: copies are what the graph works on.
  EXPECT_EQ(driver_->calls["graph_launch"], graphs + 2);
  library.close(handle);
  EXPECT_EQ(driver_->modules, modules);
}

TEST_F(ExportGpuNetwork, ArraysOnTheGpuAreUsedAsTheyAre) {
  const Network network(net_.outputs(), gpu_);
  emulate_network(network);
  const Opened small(*this, network);
  ASSERT_NE(small.handle, nullptr);
  const NDArray image = random_like(net_.image, 1);  // the fake GPU's memory is that of the host
  const std::vector<NDArray> made = fresh_outputs();
  const void* inputs[] = {image.data()};
  void* outputs[] = {made[0].data(), made[1].data()};
  const int copies = driver_->calls["memcpy_htod_async"];
  ASSERT_EQ(small.run_on_gpu(small.handle, inputs, outputs, nullptr), 0) << small.library.error();
  EXPECT_EQ(driver_->calls["memcpy_htod_async"], copies);
  expect_right(made, image);
  const void* nothing[] = {nullptr};
  EXPECT_NE(small.run_on_gpu(small.handle, nothing, outputs, nullptr), 0);
  EXPECT_THAT(small.library.error(), HasSubstr("'image' of 'small' is given a null pointer"));
  outputs[1] = outputs[0];
  EXPECT_NE(small.run_on_gpu(small.handle, inputs, outputs, nullptr), 0);
  EXPECT_THAT(small.library.error(), HasSubstr("overlap"));
}

// As torch.cuda.graph captures a call on another stream than the calls before it.
TEST_F(ExportGpuNetwork, ACallerCapturesACallIntoItsOwnGraph) {
  const Network network(net_.outputs(), gpu_);
  emulate_network(network);
  const Opened small(*this, network);
  ASSERT_NE(small.handle, nullptr);
  const NDArray image = random_like(net_.image, 1);
  const std::vector<NDArray> made = fresh_outputs();
  const void* inputs[] = {image.data()};
  void* outputs[] = {made[0].data(), made[1].data()};
  cuda::CallersStream one(driver_->api()), two(driver_->api());
  const auto call = [&](const cuda::CallersStream& stream) {
    ASSERT_EQ(small.run_on_gpu(small.handle, inputs, outputs, stream.handle()), 0)
        << small.library.error();
  };
  call(one);
  const auto graph = two.capture([&] { call(two); });
  for (const uint64_t seed : {2, 3}) {
    image.copy_from(random_like(net_.image, seed));
    two.launch(graph);
    expect_right(made, image);
    for (const NDArray& m : made) m.fill(77);
    call(one);
    expect_right(made, image);
  }
}

TEST_F(ExportGpuNetwork, NodesThatShareALaunchAreRight) {
  const Tensor image = placeholder({4, 40}, f32, "image");
  const auto branch = [&](int64_t columns, uint64_t seed) {
    const Tensor weights = constant(NDArray::random({40, columns}, f32, seed), "weights");
    return ops::softmax(ops::matmul(image, weights));
  };
  const std::vector<Tensor> outputs{ops::concat({branch(24, 1), branch(24, 2), branch(30, 3)}, 1)};
  const Network network(outputs, gpu_, {}, parse_passes("horizontal,-join_products"));
  ASSERT_FALSE(network.shared_launches().empty()) << network.to_text();
  emulate_network(network);
  const ExportedNetwork written =
      export_network(network, {image, outputs[0]}, folder_, {.name = "branches"});
  const ExportedLibrary library(written.library, "branches");
  void* handle = library.open(nullptr);
  ASSERT_NE(handle, nullptr) << library.error();
  for (uint64_t seed : {1, 2, 3}) {
    const NDArray x = random_like(image, seed), y = NDArray::full({4, 78}, f32, 77);
    const void* inputs[] = {x.data()};
    void* made[] = {y.data()};
    ASSERT_EQ(library.run(handle, inputs, made), 0) << library.error();
    EXPECT_TRUE(allclose(y, interpret(outputs, {{image, x}})[0], 1e-4, 1e-5));
  }
  library.close(handle);
}

TEST_F(ExportGpuNetwork, WhatTheMachineLacksIsSaid) {
  const Network network(net_.outputs(), gpu_);
  emulate_network(network);
  const ExportedNetwork written = write(network);
  // A library that was opened before has its driver and its device, so each case has a copy.
  int copies = 0;
  const auto error_at_open = [&] {
    const std::string copy = folder_ + "/copy" + std::to_string(copies++) + ".so";
    std::filesystem::copy_file(written.library, copy);
    const ExportedLibrary library(copy, "small");
    EXPECT_EQ(library.open(written.weights.c_str()), nullptr);
    return std::string(library.error());
  };
  driver_->device_count = 0;
  EXPECT_THAT(error_at_open(), HasSubstr("the driver has 0 devices"));
  driver_->device_count = 1;
  driver_->device.major = 8;
  EXPECT_THAT(error_at_open(), HasSubstr("its code is for sm_90a, and this GPU (NVIDIA H200) is "
                                         "sm_80; export it for this GPU"));
  driver_->device = info_;
  driver_->failing["mem_alloc"] = 2;
  EXPECT_THAT(error_at_open(), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
  driver_->failing.clear();
  use_driver("/no/such/libcuda.so");
  EXPECT_THAT(error_at_open(), HasSubstr("'small' was compiled for 'cuda -gpu=h200"));
  EXPECT_THAT(error_at_open(), HasSubstr("the NVIDIA driver was not found: /no/such/libcuda.so"));
}

TEST_F(ExportGpuNetwork, NeedsNeitherHeddleNorCuda) {
  const Network network(net_.outputs(), gpu_);
  const ExportedNetwork written = write(network);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 3);
  const std::string list = folder_ + "/needed";
  ASSERT_EQ(std::system(("ldd '" + written.library + "' > '" + list + "'").c_str()), 0);
  const std::string needed = read_file(list);
  for (const char* foreign : {"heddle", "stdc++", "cuda", "nvrtc", "LLVM"})
    EXPECT_EQ(needed.find(foreign), std::string::npos) << needed;
  EXPECT_THAT(read_file(written.header), HasSubstr("int small_run_on_gpu("));
  EXPECT_THAT(read_file(written.header), HasSubstr("the caller's graph"));
}

TEST_F(ExportGpuNetwork, LayersThatShareWeightsStoreThemOnce) {
  const Network network(net_.outputs(), gpu_);
  const int64_t bytes = write(network).weights_bytes;
  EXPECT_EQ(bytes, 4 * (40 * 40 + 40 * 24));
}

}  // namespace
}  // namespace heddle::testing
