#include "heddle/support/function_ref.h"

#include <gtest/gtest.h>

#include <memory>

namespace heddle {
namespace {

int twice(int x) { return 2 * x; }
int apply(FunctionRef<int(int)> f, int x) { return f(x); }

TEST(FunctionRef, CallsLambdasFunctionsAndMoveOnlyArguments) {
  int calls = 0;
  auto count = [&](int x) {
    ++calls;
    return x + 1;
  };
  EXPECT_EQ(apply(count, 1), 2);
  EXPECT_EQ(apply(twice, 21), 42);
  EXPECT_EQ(calls, 1);
  FunctionRef<int(std::unique_ptr<int>)> take = [](std::unique_ptr<int> p) { return *p; };
  EXPECT_EQ(take(std::make_unique<int>(7)), 7);
}

}  // namespace
}  // namespace heddle
