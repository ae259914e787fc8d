// Networks over dimensions for GPUs as libraries: one library runs at every size. A fake driver
// replaces NVIDIA's, and the emulator runs the kernels.
#include <gmock/gmock.h>

#include <numeric>

#include "heddle/dag/instance.h"
#include "heddle/network/export_network.h"
#include "network/exported_library.h"
#include "network/fake_libcuda.h"
#include "network/network_testing.h"
#include "runtime/cuda/captured_by_caller.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// Two layers on `rows` rows of 12, which the second one turns into columns. Its weights are
/// scaled ahead of all calls.
struct Layers {
  Dim rows = dim("rows", 1, 40), wide = dim("wide", 8, 32).multiple_of(8);
  Tensor x = placeholder({rows, 12}, f32, "x"), y = placeholder({12, wide}, f32, "y");
  Tensor w = constant(NDArray::random({12, 12}, f32, 3), "w");
  Tensor hidden, out;

  Layers() {
    const Axis k = reduce_axis(12, "k"), l = reduce_axis(12, "l");
    const Tensor half = compute({12, 12}, [&](Axis i, Axis j) { return w(i, j) * 0.5f; }, "half");
    const Tensor sums =
        compute({rows, 12}, [&](Axis i, Axis j) { return sum(x(i, k) * half(k, j), k); }, "sums");
    hidden = compute({rows, 12}, [&](Axis i, Axis j) { return max(sums(i, j), 0.f); }, "hidden");
    out = compute(
        {wide, rows}, [&](Axis j, Axis i) { return sum(hidden(i, l) * y(l, j), l); }, "out");
  }
  std::vector<Tensor> args() const { return {x, y, out}; }
};

class ExportGpuSizes : public FakeLibcuda {
 protected:
  using Run = int(void*, int64_t, int64_t, const void* const*, void* const*);
  using RunOnGpu = int(void*, int64_t, int64_t, const void* const*, void* const*, void*);

  void SetUp() override {
    FakeLibcuda::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const Network network({net_.out}, gpu_);
    EXPECT_GT(network.tasks().size(), network.nodes().size()) << "several kernels for a node";
    emulate_network(network);
    written_ = export_network(network, net_.args(), folder_, {.name = "layers"});
  }

  struct Arrays {
    NDArray x, y, out, want;
  };
  Arrays arrays(int64_t rows, int64_t wide) const {
    const Instance here = at_sizes({net_.out}, {{net_.rows, rows}, {net_.wide, wide}});
    Arrays a{NDArray::random({rows, 12}, f32, static_cast<uint64_t>(rows)),
             NDArray::random({12, wide}, f32, static_cast<uint64_t>(wide)),
             NDArray::full({wide, rows}, f32, 77), NDArray()};
    a.want = interpret(here.outputs, {{here.of(net_.x), a.x}, {here.of(net_.y), a.y}})[0];
    return a;
  }

  Layers net_;
  ExportedNetwork written_;
};

TEST_F(ExportGpuSizes, ItComputesWhatTheInterpreterDoesAtEverySize) {
  EXPECT_GE(prepared_, 1U) << "the test is to prepare constants";
  const ExportedLibrary library(written_.library, "layers");
  void* handle = library.open(nullptr);
  ASSERT_NE(handle, nullptr) << library.error();
  Run* run = library.find<Run>("layers_run");
  RunOnGpu* run_on_gpu = library.find<RunOnGpu>("layers_run_on_gpu");
  for (int64_t rows = 40; rows >= 1; rows -= rows > 5 ? 3 : 1) {
    for (int64_t wide = 8; wide <= 32; wide += 8) {
      const Arrays a = arrays(rows, wide);
      const void* inputs[] = {a.x.data(), a.y.data()};
      void* outputs[] = {a.out.data()};
      ASSERT_EQ(run(handle, rows, wide, inputs, outputs), 0) << library.error();
      EXPECT_TRUE(allclose(a.out, a.want, 1e-4, 1e-5)) << rows << " " << wide;
      a.out.fill(77);  // the fake GPU's memory is that of the host
      ASSERT_EQ(run_on_gpu(handle, rows, wide, inputs, outputs, nullptr), 0) << library.error();
      EXPECT_TRUE(allclose(a.out, a.want, 1e-4, 1e-5)) << rows << " " << wide;
    }
  }
  library.close(handle);
}

TEST_F(ExportGpuSizes, EachSizeHasItsGraph) {
  const ExportedLibrary library(written_.library, "layers");
  void* handle = library.open(nullptr);
  ASSERT_NE(handle, nullptr) << library.error();
  Run* run = library.find<Run>("layers_run");
  const int before = driver_->calls["graph_launch"];
  for (int round = 0; round < 3; ++round) {
    for (const int64_t rows : {40, 1, 17}) {
      const Arrays a = arrays(rows, 16);
      const void* inputs[] = {a.x.data(), a.y.data()};
      void* outputs[] = {a.out.data()};
      ASSERT_EQ(run(handle, rows, 16, inputs, outputs), 0) << library.error();
      EXPECT_TRUE(allclose(a.out, a.want, 1e-4, 1e-5)) << rows;
    }
  }
  EXPECT_EQ(driver_->calls["graph_launch"], before + 6);
  library.close(handle);
}

TEST_F(ExportGpuSizes, ACallerCapturesCallsAtSizesOldAndNew) {
  const ExportedLibrary library(written_.library, "layers");
  void* handle = library.open(nullptr);
  ASSERT_NE(handle, nullptr) << library.error();
  RunOnGpu* run_on_gpu = library.find<RunOnGpu>("layers_run_on_gpu");
  {
    cuda::CallersStream one(driver_->api()), two(driver_->api());
    const auto call = [&](const Arrays& a, const cuda::CallersStream& stream) {
      const void* inputs[] = {a.x.data(), a.y.data()};
      void* outputs[] = {a.out.data()};
      ASSERT_EQ(run_on_gpu(handle, a.x.shape()[0], 16, inputs, outputs, stream.handle()), 0)
          << library.error();
    };
    const Arrays before = arrays(17, 16);
    call(before, one);
    for (const int64_t rows : {17, 40, 1}) {
      const Arrays a = rows == 17 ? before : arrays(rows, 16);
      const auto graph = two.capture([&] { call(a, two); });
      a.out.fill(77);
      two.launch(graph);
      EXPECT_TRUE(allclose(a.out, a.want, 1e-4, 1e-5)) << rows;
      call(before, one);
    }
  }
  library.close(handle);
}

TEST_F(ExportGpuSizes, WrongSizesAreErrors) {
  const ExportedLibrary library(written_.library, "layers");
  void* handle = library.open(nullptr);
  ASSERT_NE(handle, nullptr) << library.error();
  Run* run = library.find<Run>("layers_run");
  const Arrays a = arrays(40, 32);
  const void* inputs[] = {a.x.data(), a.y.data()};
  void* outputs[] = {a.out.data()};
  EXPECT_NE(run(handle, 41, 8, inputs, outputs), 0);
  EXPECT_THAT(library.error(), HasSubstr("the size 'rows' is 41, and 'layers' is for 1 to 40"));
  EXPECT_NE(run(handle, 0, 8, inputs, outputs), 0);
  EXPECT_NE(run(handle, 1, 9, inputs, outputs), 0);
  EXPECT_THAT(library.error(), HasSubstr("multiples of 8 only"));
  const void* nothing[] = {nullptr, nullptr};
  EXPECT_NE(run(handle, 1, 8, nothing, outputs), 0);
  EXPECT_THAT(library.error(), HasSubstr("null pointer"));
  library.close(handle);
  const std::string header = read_file(written_.header);
  EXPECT_THAT(header, HasSubstr("layers_run(layers_network* network, int64_t size_rows, int64_t "
                                "size_wide, const void"));
  EXPECT_THAT(header, HasSubstr("layers_run_on_gpu(layers_network* network, int64_t size_rows"));
  EXPECT_THAT(header, HasSubstr("out  f32[wide, rows]"));
  EXPECT_THAT(header, HasSubstr("int layers_num_sizes(void);"));
}

}  // namespace
}  // namespace heddle::testing
