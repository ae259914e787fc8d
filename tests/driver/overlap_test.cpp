// What a call must refuse before it runs: overlapping memory, a kernel that was never built.
#include <gtest/gtest.h>
#include <functional>

#include "heddle/heddle.h"
#include "heddle/ops/ops.h"

namespace heddle {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.message;
  }
  return "";
}

TEST(Overlap, AnOutputThatIsAlsoAnInputIsRefused) {
  Tensor a = placeholder({8, 8}, f32, "a"), b = placeholder({8, 8}, f32, "b");
  Tensor c = ops::matmul(a, b);
  Kernel k = build(create_schedule({c}), {a, b, c}, {.name = "mm"});
  NDArray x = NDArray::zeros({8, 8}, f32), y = NDArray::zeros({8, 8}, f32);
  EXPECT_EQ(message_of([&] { k(x, y, x); }),
            "arguments 'matmul' and 'a' of kernel 'mm' overlap in memory");
}

TEST(Overlap, InputsMayBeOneArray) {
  Tensor a = placeholder({8, 8}, f32, "a"), b = placeholder({8, 8}, f32, "b");
  Tensor c = ops::add(a, b);
  Kernel k = build(create_schedule({c}), {a, b, c});
  NDArray x = NDArray::full({8, 8}, f32, 2), y = NDArray::zeros({8, 8}, f32);
  k(x, x, y);
  EXPECT_EQ(y.get(63), 4);
}

TEST(Overlap, AKernelThatWasNeverBuiltSaysSo) {
  Kernel k;
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { k.refresh(); }, [&] { (void)k.name(); }, [&] { (void)k.args(); },
           [&] { (void)k.source(); }, [&] { k(); }}) {
    EXPECT_EQ(message_of(call), "this kernel was never built");
  }
}

TEST(Options, AreCheckedWhenTheScopeOpens) {
  auto with = [](AutoSchedulerOptions o) {
    return message_of([&] { AutoSchedulerOptionsScope s(o); });
  };
  EXPECT_EQ(with({.vector_bytes = 7}), "AutoSchedulerOptions: vector_bytes is 7");
  EXPECT_EQ(with({.threads = -3}), "AutoSchedulerOptions: threads is -3");
  EXPECT_EQ(with({.force_template = "nope"}),
            "AutoSchedulerOptions: there is no meta-template 'nope'");
  EXPECT_EQ(with({.force_template = "direct_compute"}), "");
}

TEST(Inlining, AChainThatDoublesIsCutBeforeItExplodes) {
  Tensor x = placeholder({64}, f32, "x"), y = x;
  for (int i = 0; i < 24; ++i) y = ops::relu(ops::add(y, y));
  Kernel k = build(create_schedule({y}), {x, y});
  NDArray a = NDArray::full({64}, f32, 1), b = NDArray::zeros({64}, f32);
  k(a, b);
  EXPECT_EQ(b.get(5), 16777216);  // 2^24
}

}  // namespace
}  // namespace heddle
