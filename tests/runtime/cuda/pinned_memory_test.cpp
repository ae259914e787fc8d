// Arrays that a GPU copies to by itself.
#include "runtime/cuda/pinned_memory.h"

#include <gtest/gtest.h>

#include "heddle/support/error.h"
#include "runtime/cuda/array_memory.h"
#include "runtime/cuda/fake_driver.h"

namespace heddle::cuda {
namespace {

class Pinned : public testing::Test {
 protected:
  bool is_pinned(const NDArray& a) const { return driver_.pinned.contains(a.data()); }

  FakeDriver driver_;
  ScopedDriver scope_{&driver_.api()};
};

TEST_F(Pinned, AnArrayIsUsedAgainWhenItsLastHandleIsGone) {
  PinnedArrays arrays({2, 3}, f32, 0, 2);
  NDArray one = arrays.take();
  EXPECT_EQ(one.shape(), (Extents{2, 3}));
  EXPECT_EQ(one.dtype(), f32);
  EXPECT_TRUE(one.device().is_cpu());
  EXPECT_TRUE(is_pinned(one));
  const NDArray row = one.rows(1, 2);
  const void* const first = one.data();
  one = arrays.take();
  EXPECT_NE(one.data(), first);  // the row is held
  const NDArray third = arrays.take();
  EXPECT_FALSE(is_pinned(third));
  third.fill(1);
  const void* const second = one.data();
  one = NDArray();
  EXPECT_EQ(arrays.take().data(), second);
  EXPECT_EQ(driver_.calls["mem_alloc_host"], 2);
}

TEST_F(Pinned, AnArrayOutlivesWhatItCameFrom) {
  NDArray array;
  {
    PinnedArrays arrays({4}, f32, 0, 1);
    array = arrays.take();
  }
  array.fill(1);
  EXPECT_EQ(array.get(3), 1);
  array = NDArray();
  EXPECT_TRUE(driver_.pinned.empty());
}

TEST_F(Pinned, CopiesDoNotWait) {
  driver_.late = true;
  const PinnedMemory memory(16, 0);
  const NDArray there = NDArray::full({4}, f32, 5, Device::cuda()),
                here = NDArray::wrap(memory.data(), {4}, f32);
  here.fill(1);
  const int waits = driver_.calls["stream_synchronize"];
  start_copy(here.data(), Device::cpu(), there.data(), there.device(), 16);
  EXPECT_EQ(here.get(0), 1);
  EXPECT_EQ(driver_.calls["stream_synchronize"], waits);
  synchronize();
  EXPECT_EQ(here.get(0), 5);
}

TEST_F(Pinned, WantOfMemoryIsAnError) {
  driver_.failing["mem_alloc_host"] = api::kOutOfMemory;
  PinnedArrays arrays({4}, f32, 0, 1);
  EXPECT_THROW((void)arrays.take(), Error);
  driver_.failing.clear();
  EXPECT_TRUE(is_pinned(arrays.take()));
}

}  // namespace
}  // namespace heddle::cuda
