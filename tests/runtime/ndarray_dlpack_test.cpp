#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <vector>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

// A tensor of another library, which notes when it is given back.
struct Foreign {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> shape = {2, 3};
  std::vector<std::int64_t> strides;
  DLManagedTensor managed = {};
  int deleted = 0;

  DLManagedTensor* get() {
    DLTensor& t = managed.dl_tensor;
    t.data = values.data();
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int>(shape.size());
    t.dtype = {kDLFloat, 32, 1};
    t.shape = shape.data();
    t.strides = strides.empty() ? nullptr : strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->deleted;
    };
    return &managed;
  }
};

TEST(Dlpack, BorrowsUntilTheLastHandleGoes) {
  Foreign foreign;
  {
    const NDArray a = NDArray::from_dlpack(foreign.get());
    const NDArray row = a.rows(1, 2);
    EXPECT_EQ(a.data(), foreign.values.data());
    EXPECT_EQ(row.at<float>({0, 2}), 6);
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(Dlpack, CopiesWhatIsNotRowMajor) {
  Foreign foreign;
  foreign.shape = {3, 2};
  foreign.strides = {1, 3};  // the transpose
  const NDArray a = NDArray::from_dlpack(foreign.get());
  EXPECT_EQ(foreign.deleted, 1);
  EXPECT_EQ(max_abs_diff(a, NDArray::from<float>({1, 4, 2, 5, 3, 6}, {3, 2})), 0);
}

TEST(Dlpack, HonoursTheOffsetAndOddStridesOfUnitDimensions) {
  Foreign foreign;
  foreign.shape = {1, 5};
  foreign.strides = {999, 1};
  foreign.get()->dl_tensor.byte_offset = 4;
  const NDArray a = NDArray::from_dlpack(&foreign.managed);
  EXPECT_EQ(a.data(), foreign.values.data() + 1);
}

TEST(Dlpack, RefusedTensorsStayWithTheCaller) {
  Foreign foreign;
  foreign.get()->dl_tensor.device = {kDLOpenCL, 0};
  EXPECT_THROW(NDArray::from_dlpack(&foreign.managed), Error);
  foreign.get()->dl_tensor.dtype = {kDLComplex, 64, 1};
  EXPECT_THROW(NDArray::from_dlpack(&foreign.managed), Error);
  foreign.get()->dl_tensor.dtype = {kDLFloat, 32, 4};
  EXPECT_THROW(NDArray::from_dlpack(&foreign.managed), Error);
  foreign.get()->dl_tensor.data = nullptr;
  EXPECT_THROW(NDArray::from_dlpack(&foreign.managed), Error);
  EXPECT_THROW(NDArray::from_dlpack(nullptr), Error);
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(Dlpack, EveryTypeGoesThereAndBack) {
  for (DataType type : {f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean}) {
    NDArray a = NDArray::random({3, 5}, type, 1);
    DLManagedTensor* exported = a.to_dlpack();
    const NDArray copy = a.copy();
    a = NDArray();  // the exported tensor keeps the memory
    const NDArray back = NDArray::from_dlpack(exported);
    EXPECT_EQ(back.dtype(), type);
    EXPECT_EQ(max_abs_diff(back, copy), 0);
  }
}

}  // namespace
}  // namespace heddle
