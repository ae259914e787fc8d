// Arrays whose elements are read when they are needed, and dropped again.
#include "runtime/array/deferred.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace heddle {
namespace {

/// Counts up from 1 when it is read; dropped elements are 0.
class Counted : public internal::Deferred {
 public:
  explicit Counted(size_t count) : Deferred("file"), elements_(count) {}
  void* block() const override { return const_cast<float*>(elements_.data()); }
  int reads = 0, drops = 0;

 private:
  void read() override {
    ++reads;
    for (size_t i = 0; i < elements_.size(); ++i) elements_[i] = static_cast<float>(i + 1);
  }
  void drop() override {
    ++drops;
    std::fill(elements_.begin(), elements_.end(), 0.0F);
  }
  std::vector<float> elements_;
};

struct Fixture {
  Ref<Counted> storage = make_ref<Counted>(6);
  NDArray array = internal::deferred_array(storage, {2, 3}, f32);
};

TEST(Deferred, NothingIsReadBeforeAnElementIsNeeded) {
  const Fixture f;
  const NDArray copy = f.array, view = f.array.view({6}), row = f.array.rows(1, 2);
  EXPECT_EQ(view.address(), f.array.address());
  EXPECT_TRUE(view.defined());
  EXPECT_EQ(f.storage->reads, 0);
  EXPECT_EQ(row.data<float>()[0], 4);
  EXPECT_EQ(copy.get(5), 6);
  EXPECT_EQ(f.storage->reads, 1);
}

TEST(Deferred, PinnedElementsAreDroppedByTheLastPin) {
  const Fixture f;
  const auto* elements = static_cast<const float*>(f.array.address());
  for (int time = 1; time <= 2; ++time) {
    const internal::Pinned outer({&f.array, 1});
    {
      const internal::Pinned inner({&f.array, 1});
      EXPECT_EQ(elements[1], 2);
    }
    EXPECT_EQ(elements[1], 2) << "the outer pin holds them";
    EXPECT_EQ(f.storage->reads, time);
  }
  EXPECT_EQ(elements[1], 0);
  EXPECT_EQ(f.storage->drops, 2);
}

TEST(Deferred, CopiesAndConversionsDoNotKeepThem) {
  const Fixture f;
  EXPECT_EQ(f.array.copy().get(2), 3);
  EXPECT_EQ(f.array.cast(f64).get(5), 6);
  EXPECT_EQ(f.storage->drops, 2);
}

TEST(Deferred, WhoeverHasTheAddressKeepsThem) {
  const Fixture f;
  float* elements = f.array.data<float>();
  {
    const internal::Pinned pinned({&f.array, 1});
  }
  EXPECT_EQ(elements[0], 1);
  EXPECT_EQ(f.storage->drops, 0);
}

// What may have been written is not what the file says any more.
TEST(Deferred, TheIdentityEndsWhereElementsMayChange) {
  const Fixture f;
  const std::string whole = internal::identity_of(f.array);
  EXPECT_NE(whole, "");
  EXPECT_NE(internal::identity_of(f.array.rows(0, 1)), internal::identity_of(f.array.rows(1, 2)));
  EXPECT_EQ(internal::kept(f.array), f.array.address());
  EXPECT_EQ(internal::identity_of(f.array), whole) << "a reader changes nothing";
  f.array.set(0, 5);
  EXPECT_EQ(internal::identity_of(f.array), "");
  EXPECT_EQ(internal::identity_of(NDArray::zeros({2}, f32)), "");
}

}  // namespace
}  // namespace heddle
