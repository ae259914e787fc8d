// The key of compiled code on the disk.
#include <gtest/gtest.h>

#include "codegen/llvm/object_cache.h"
#include "heddle/driver/build.h"
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

}  // namespace
}  // namespace heddle
