// Kernels of networks on the disk: a second build finds them, and other programs do not.
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "heddle/dag/instance.h"
#include "heddle/driver/build.h"
#include "network/network_testing.h"
#include "runtime/kernel/weights_cache.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

namespace fs = std::filesystem;

class CachedNetwork : public ::testing::Test {
 protected:
  CachedNetwork() {
    fs::remove_all(folder_);
    if (const char* old = ::getenv("HEDDLE_CACHE")) old_ = old, had_ = true;
    ::setenv("HEDDLE_CACHE", folder_.c_str(), 1);
  }
  ~CachedNetwork() override {
    had_ ? ::setenv("HEDDLE_CACHE", old_.c_str(), 1) : ::unsetenv("HEDDLE_CACHE");
    fs::remove_all(folder_);
  }

  // Two layers of different shapes, with weights to pack and a softmax: prepared and temporary
  // buffers, parallel loops and mathematical functions.
  NetworkBuildReport build(const Target& target = Target::host()) const {
    const Tensor x = placeholder({24, 32}, f32, "x"), w = weights({32, 48}, "w"),
                 v = weights({48, 16}, "v");
    const Tensor y = ops::softmax(ops::matmul(ops::relu(ops::matmul(x, w)), v));
    const std::vector<Tensor> args{x, w, v, y};
    const NetworkKernel run = Network({y}, target).build(args);
    std::vector<NDArray> arrays = arrays_for(args);
    run.call(arrays);
    EXPECT_EQ(differs_from_interpreter({y}, args, arrays), "");
    return run.build_report();
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("heddle_cached_network_test_" + std::to_string(::getpid()));

 private:
  std::string old_;
  bool had_ = false;
};

TEST_F(CachedNetwork, TheSecondBuildFindsTheCode) {
  const NetworkBuildReport first = build(), second = build();
  EXPECT_GE(first.kernels, 2);
  EXPECT_EQ(first.from_disk, 0);
  EXPECT_EQ(second.from_disk, second.kernels);
  EXPECT_EQ(disk_code_cache().entries().size(), static_cast<size_t>(first.kernels));
}

// Kernels over ranges are found like those of one size, and compute what they did.
TEST_F(CachedNetwork, TheSecondBuildFindsTheCodeOfARange) {
  const auto build_range = [](int64_t most) {
    const Dim rows = dim("rows", 1, most);
    const Tensor x = placeholder({rows, 32}, f32, "x"),
                 w = constant(NDArray::random({32, 48}, f32, 3), "w"),
                 v = constant(NDArray::random({48, 48}, f32, 4), "v");
    const Axis k = reduce_axis(32, "k"), l = reduce_axis(48, "l");
    const Tensor h = compute(
                     {rows, 48}, [&](Axis i, Axis j) { return sum(x(i, k) * w(k, j), k); }, "h"),
                 y = compute(
                     {rows, 48}, [&](Axis i, Axis j) { return sum(h(i, l) * v(l, j), l); }, "y");
    const NetworkKernel run = Network({y}).build({x, y});
    for (const int64_t n : {int64_t{1}, most / 2, most}) {
      const Instance here = at_sizes({y}, {{rows, n}});
      const NDArray in = NDArray::random({n, 32}, f32, static_cast<uint64_t>(n)),
                    out = NDArray::zeros({n, 48}, f32);
      run(in, out);
      EXPECT_TRUE(allclose(out, interpret(here.outputs, {{here.of(x), in}})[0], 1e-4, 1e-5)) << n;
    }
    return run.build_report();
  };
  const NetworkBuildReport first = build_range(24), second = build_range(24);
  EXPECT_EQ(first.from_disk, 0);
  EXPECT_EQ(second.from_disk, second.kernels);
  EXPECT_LT(build_range(25).from_disk, first.kernels);
}

TEST_F(CachedNetwork, CodeOfAnotherMachineIsNotTaken) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "it names CPUs of x86";
#endif
  build();
  EXPECT_EQ(build(Target::parse("llvm -mcpu=x86-64-v2 -threads=2")).from_disk, 0);
}

TEST_F(CachedNetwork, DamagedFilesAreCompiledAgain) {
  const int kernels = build().kernels;
  for (const DiskCache::Entry& e : disk_code_cache().entries()) {
    std::string content = read_file(e.path.string());
    content[content.size() / 2] ^= 1;
    write_file_atomic(e.path.string(), content);
  }
  const NetworkBuildReport again = build();
  EXPECT_EQ(again.damaged, kernels);
  EXPECT_EQ(again.from_disk, 0);
  EXPECT_EQ(build().from_disk, kernels);
}

TEST_F(CachedNetwork, WithoutACacheNothingIsWritten) {
  ::setenv("HEDDLE_CACHE", "off", 1);
  build();
  EXPECT_EQ(build().from_disk, 0);
  EXPECT_FALSE(fs::exists(folder_));
}

// Weights with values, which the kernels pack.
class PackedOnDisk : public CachedNetwork {
 protected:
  static void expect_right(const NDArray& values) {
    const Tensor x = placeholder({24, 64}, f32, "x"), w = constant(values, "w"),
                 y = ops::relu(ops::matmul(x, w));
    const NetworkKernel run = Network({y}).build({x, y});
    const NDArray in = random_like(x, 1), out = zeros_like(y);
    run(in, out);
    EXPECT_TRUE(allclose(out, interpret({y}, {{x, in}})[0], 1e-4, 1e-4));
  }
};

TEST_F(PackedOnDisk, EqualWeightsAreReadAndOthersArePacked) {
  const NDArray values = NDArray::random({64, 96}, f32, 3);
  expect_right(values);
  const std::vector<DiskCache::Entry> first = disk_weights_cache().entries();
  if (first.empty()) GTEST_SKIP() << "the kernel of this machine reads its weights as they are";
  fs::last_write_time(first[0].path, fs::file_time_type::clock::now() - std::chrono::hours(5));
  const auto old = fs::last_write_time(first[0].path);
  expect_right(values);  // the file is read, which marks it as used
  EXPECT_GT(fs::last_write_time(first[0].path), old);
  EXPECT_EQ(disk_weights_cache().entries().size(), 1U);
  values.set(0, 100);
  expect_right(values);
  EXPECT_EQ(disk_weights_cache().entries().size(), 2U);
}

TEST_F(PackedOnDisk, DamagedFilesArePackedAgain) {
  const NDArray values = NDArray::random({64, 96}, f32, 3);
  expect_right(values);
  for (const DiskCache::Entry& e : disk_weights_cache().entries()) {
    std::string content = read_file(e.path.string());
    content[content.size() / 2] ^= 1;
    write_file_atomic(e.path.string(), content);
  }
  expect_right(values);
  expect_right(values);
}

// Others cannot put code into the folder that this process runs.
TEST_F(CachedNetwork, CodeThatWasPutThereIsNotTaken) {
  const int kernels = build().kernels;
  const fs::path mine = folder_ / "code", theirs = folder_ / "their code";
  fs::copy(mine, theirs);
  fs::remove_all(mine);
  fs::remove(folder_ / "key");
  build();  // under a key of its own
  for (const fs::directory_entry& file : fs::directory_iterator(theirs))
    fs::copy(file, mine, fs::copy_options::overwrite_existing);
  const NetworkBuildReport again = build();
  EXPECT_EQ(again.from_disk, 0);
  EXPECT_EQ(again.damaged, kernels);
  fs::permissions(mine, fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(build().from_disk, 0);
  fs::permissions(mine, fs::perms::group_write, fs::perm_options::remove);
  EXPECT_EQ(build().from_disk, kernels);
}

// The code of a kernel stays while it lives, whatever else is loaded and dropped.
TEST_F(CachedNetwork, KernelsOfOneKeyLiveSideBySide) {
  const Tensor x = placeholder({64}, f32, "x"), y = ops::relu(x);
  const Schedule s = create_schedule({y});
  const auto make = [&] { return heddle::build(s, {x, y}, {.disk_cache = true}); };
  Kernel a = make(), b = make();
  a = Kernel();
  Kernel c = make();
  const NDArray in = NDArray::random({64}, f32, 1), out = NDArray::zeros({64}, f32);
  for (const Kernel& k : {b, c}) {
    k(in, out);
    for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(out.get(i), std::max(0.0, in.get(i)));
  }
}

}  // namespace
}  // namespace heddle::testing
