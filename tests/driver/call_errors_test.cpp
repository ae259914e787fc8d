// What a call refuses, in the words that people see; and DLPack without copies.
#include <dlpack/dlpack.h>

#include "driver/driver_testing.h"

namespace heddle::testing {
namespace {

Kernel doubling(DataType t = f32) {
  Tensor x = placeholder({4, 8}, t, "x");
  Tensor y = compute({4, 8}, [&](Axis i, Axis j) { return x(i, j) + x(i, j); }, "y");
  BuildOptions options;
  options.name = "doubling";
  return build(Schedule({y}), {x, y}, options);
}

TEST(Call, WrongCountsShapesAndTypesAreNamed) {
  Kernel k = doubling();
  NDArray x = NDArray::zeros({4, 8}, f32), y = NDArray::zeros({4, 8}, f32);
  EXPECT_EQ(error_of([&] { k(x); }), R"(kernel 'doubling' takes 2 arguments, but 1 were given)");
  EXPECT_EQ(error_of([&] { k(x, y, y); }),
            R"(kernel 'doubling' takes 2 arguments, but 3 were given)");
  EXPECT_EQ(error_of([&] { k.call({}); }),
            R"(kernel 'doubling' takes 2 arguments, but 0 were given)");
  EXPECT_EQ(error_of([&] { k(x, NDArray::zeros({4, 9}, f32)); }),
            R"(argument 1 ('y') of kernel 'doubling' must have shape {4, 8}, but has {4, 9})");
  EXPECT_EQ(error_of([&] { k(x, NDArray::zeros({32}, f32)); }),
            R"(argument 1 ('y') of kernel 'doubling' must have shape {4, 8}, but has {32})");
  EXPECT_EQ(error_of([&] { k(NDArray::zeros({4, 8}, f64), y); }),
            R"(argument 0 ('x') of kernel 'doubling' must be f32, but is f64)");
  EXPECT_EQ(error_of([&] { k(NDArray(), y); }),
            R"(argument 0 ('x') of kernel 'doubling' is no array)");
  k(x, y);
}

TEST(Call, ErrorsAreOfTheRuntimeKind) {
  Kernel k = doubling();
  try {
    k(NDArray(), NDArray());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Runtime);
  }
}

TEST(Call, AMisalignedArrayIsRefusedAndAnElementAlignedOneIsFine) {
  Kernel k = doubling();
  alignas(64) char memory[4 * 8 * 4 + 64] = {};
  NDArray y = NDArray::zeros({4, 8}, f32);
  EXPECT_EQ(error_of([&] { k(NDArray::wrap(memory + 1, {4, 8}, f32), y); }),
            R"(argument 0 ('x') of kernel 'doubling' is not aligned to its element type)");
  NDArray shifted = NDArray::wrap(memory + 4, {4, 8}, f32);
  shifted.fill(3);
  k(shifted, y);
  EXPECT_EQ(y.get(31), 6);
}

TEST(Call, AKernelThatWasNeverBuiltSaysSo) {
  Kernel k;
  EXPECT_FALSE(k);
  EXPECT_EQ(error_of([&] { k(NDArray::zeros({1}, f32)); }), "this kernel was never built");
}

TEST(Call, DlpackTensorsAreReadAndWrittenInPlace) {
  Kernel k = doubling();
  // Memory of "another library".
  std::vector<float> in(32, 1.5f), out(32, 0.f);
  int64_t shape[2] = {4, 8};
  int deleted = 0;
  auto tensor = [&](std::vector<float>& data) {
    auto* t = new DLManagedTensor{};
    t->dl_tensor.data = data.data();
    t->dl_tensor.device = {kDLCPU, 0};
    t->dl_tensor.ndim = 2;
    t->dl_tensor.dtype = {kDLFloat, 32, 1};
    t->dl_tensor.shape = shape;
    t->manager_ctx = &deleted;
    t->deleter = [](DLManagedTensor* self) {
      ++*static_cast<int*>(self->manager_ctx);
      delete self;
    };
    return t;
  };
  {
    NDArray x = NDArray::from_dlpack(tensor(in)), y = NDArray::from_dlpack(tensor(out));
    EXPECT_EQ(x.data(), in.data());
    k(x, y);
    EXPECT_EQ(out[31], 3.f);
    in[31] = 4.f;
    k(x, y);
    EXPECT_EQ(out[31], 8.f);
  }
  EXPECT_EQ(deleted, 2);
  // And out: what the kernel writes is what the receiver sees.
  NDArray x = NDArray::full({4, 8}, f32, 2), y = NDArray::zeros({4, 8}, f32);
  DLManagedTensor* given = y.to_dlpack();
  k(x, y);
  EXPECT_EQ(static_cast<float*>(given->dl_tensor.data)[31], 4.f);
  given->deleter(given);
}

TEST(Call, RowsOfALargerArrayAreArguments) {
  Kernel k = doubling();
  NDArray whole = NDArray::random({12, 8}, f32, 5), y = NDArray::zeros({12, 8}, f32);
  for (int64_t r : {0, 4, 8}) k(whole.rows(r, r + 4), y.rows(r, r + 4));
  for (int64_t i = 0; i < whole.size(); ++i) EXPECT_EQ(y.get(i), 2 * whole.get(i));
}

}  // namespace
}  // namespace heddle::testing
