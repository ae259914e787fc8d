// The key of compiled code on the disk.
#include <gtest/gtest.h>

#include "codegen/llvm/jit/object_cache.h"
#include "heddle/driver/build.h"
#include "heddle/dsl/dim.h"
#include "heddle/ops/ops.h"

namespace heddle {
namespace {

std::string key_of(const Schedule& s, const std::vector<Tensor>& args, const std::string& name,
                   int opt_level = 1) {
  const LoweredProgram p = lower(s, args, {.name = name});
  return codegen::object_key({p.main}, s.target(), opt_level);
}

TEST(ObjectKey, DependsOnCodeAndArgumentsAndNotOnNames) {
  const Tensor a = placeholder({64}, f32, "a"), b = placeholder({64}, f32, "b"), c = ops::sub(a, b);
  const Schedule s = create_schedule({c});
  const std::string key = key_of(s, {a, b, c}, "first");
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key, key_of(s, {a, b, c}, "second"));
  EXPECT_NE(key, key_of(s, {b, a, c}, "first"));
  EXPECT_NE(key, key_of(s, {a, b, c}, "first", 2));
  const Tensor d = placeholder({65}, f32, "a"), e = placeholder({65}, f32, "b"), f = ops::sub(d, e);
  EXPECT_NE(key, key_of(create_schedule({f}), {d, e, f}, "first"));
}

/// The key of the sum of two arrays over ranges of rows and columns. `rows_first` says in which
/// order a call gives the sizes.
std::string key_over_sizes(const std::string& name, int64_t most_rows, bool rows_first = true) {
  const Dim rows = dim(name, 1, most_rows), columns = dim(name + " too", 1, 64);
  const Tensor a = placeholder({rows, columns}, f32, "a"),
               b = compute({rows, columns}, [&](Axis i, Axis j) { return a(i, j) + 1.0f; }, "b");
  LoweredProgram p = lower(naive_schedule({b}, Target::host()), {a, b}, {.name = name});
  EXPECT_EQ(p.main.sizes.size(), 2u);
  if (!rows_first) std::swap(p.main.sizes[0], p.main.sizes[1]);
  return codegen::object_key({p.main}, Target::host(), 2);
}

TEST(ObjectKey, DependsOnRangesAndOnTheOrderOfSizesAndNotOnTheirNames) {
  const std::string key = key_over_sizes("n", 64);
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key, key_over_sizes("m", 64));
  EXPECT_NE(key, key_over_sizes("n", 65));
  EXPECT_NE(key, key_over_sizes("n", 64, /*rows_first=*/false));
}

}  // namespace
}  // namespace heddle
