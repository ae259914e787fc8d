// Helpers of the tests of picks: a temporary folder, and variants whose times the test sets.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "environment.h"
#include "heddle/runtime/multi_kernel.h"
#include "heddle/support/error.h"
#include "support/files/file.h"

namespace heddle::testing {

/// A folder that goes with the test.
class Folder {
 public:
  Folder() : path_(::testing::TempDir() + "heddle_picks_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw_runtime_error("no temporary folder");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::shared_ptr<const PickStore> store() const {
    return std::make_shared<const PickStore>(path_);
  }

 private:
  std::string path_;
};

/// y = 2 x in several variants, with times that the test says.
struct Doubling {
  std::map<std::string, double> seconds;  ///< of each variant; they are timed as the names say
  std::map<std::string, std::atomic<int>> timed, called;
  std::vector<std::string> messages;
  std::mutex mutex;

  static std::vector<KernelArg> args(std::vector<int64_t> shape) {
    return {{"x", f32, shape}, {"y", f32, shape, true}};
  }

  /// `error` is added to each element of the answer.
  KernelVariant variant(const std::string& name, std::vector<int64_t> shape = {4},
                        float error = 0) {
    called[name] = 0;
    timed[name] = 0;
    KernelVariant v;
    v.name = name;
    v.args = args(std::move(shape));
    v.code = "doubling " + name;
    v.function = [this, name, error](std::span<const NDArray> a) {
      ++called.at(name);
      for (int64_t i = 0; i < a[0].size(); ++i) {
        a[1].data<float>()[i] = 2 * a[0].data<float>()[i] + error;
      }
    };
    return v;
  }

  PickOptions options(std::shared_ptr<const PickStore> store = nullptr) {
    PickOptions o;
    o.store = std::move(store);
    o.seconds = 60;
    o.message = [this](const std::string& text) {
      const std::lock_guard lock(mutex);
      messages.push_back(text);
    };
    o.time_call = [this](const std::string& name, FunctionRef<void()> call) {
      ++timed.at(name);
      call();
      return seconds.at(name);
    };
    return o;
  }

  static std::string wrong(const MultiKernel& kernel, std::vector<int64_t> shape = {4}) {
    const NDArray x = NDArray::random(shape, f32, 3), y = NDArray::full(shape, f32, 77);
    kernel(x, y);
    for (int64_t i = 0; i < x.size(); ++i) {
      if (y.get(i) != 2 * x.get(i)) return "element " + std::to_string(i);
    }
    return "";
  }
};

template <class F>
Error caught(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::Internal, "no error"};
}

}  // namespace heddle::testing
