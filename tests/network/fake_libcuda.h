// Exported networks for GPUs on a machine without one: a fake libcuda.so replaces NVIDIA's, and the
// emulator runs the kernels.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "network/emulated_network.h"

namespace heddle::testing {

class FakeLibcuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
    use_driver(HEDDLE_TEST_FAKE_LIBCUDA);
    // The library of the driver is never closed, so that all tests see one driver.
    void* library = ::dlopen(HEDDLE_TEST_FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    driver_ = reinterpret_cast<cuda::FakeDriver* (*)()>(::dlsym(library, "heddle_fake_driver"))();
    info_ = driver_->device;
  }
  void TearDown() override {
    if (driver_ != nullptr) {
      driver_->device = info_;
      driver_->device_count = 1;
      driver_->kernels.clear();
      driver_->failing.clear();
    }
    ::unsetenv("HEDDLE_LIBCUDA");
    std::filesystem::remove_all(folder_);
  }
  static void use_driver(const std::string& path) {
    ASSERT_EQ(::setenv("HEDDLE_LIBCUDA", path.c_str(), 1), 0);
  }

  /// Teaches the driver what the kernels of the network compute.
  void emulate_network(const Network& network) {
    prepared_ += testing::emulate_network(*driver_, network, gpu_);
  }

  Target gpu_ = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver* driver_ = nullptr;
  cuda::DeviceInfo info_;
  size_t prepared_ = 0;  ///< kernels that prepare constants
  std::string folder_ = (std::filesystem::path(::testing::TempDir()) /
                         ("heddle_gpu_network_" + std::to_string(::getpid())))
                            .string();
};

}  // namespace heddle::testing
