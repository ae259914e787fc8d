// The variant that a multi-kernel picks, and the arrays that it protects while it measures.
#include "heddle/runtime/multi_kernel.h"

#include <thread>

#include "heddle/support/json.h"
#include "picks/picks_testing.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MultiKernelFacts facts(const std::string& name = "double") {
  return {.name = name, .target = "llvm test", .machine = "a machine", .build = "a build"};
}

TEST(MultiKernel, TheFirstCallMeasuresAndLaterOnesDoNot) {
  Doubling d;
  d.seconds = {{"slow", 3e-3}, {"fast", 1e-3}, {"middle", 2e-3}};
  const MultiKernel k(facts(), {d.variant("slow"), d.variant("fast"), d.variant("middle")},
                      d.options());
  EXPECT_THAT(k.picks(), IsEmpty());
  EXPECT_EQ(Doubling::wrong(k), "");
  ASSERT_EQ(k.picks().size(), 1U);
  const PickRow row = k.picks()[0];
  EXPECT_EQ(row.picked, "fast");
  EXPECT_EQ(row.reason, PickReason::Measured);
  EXPECT_EQ(row.shapes, "f32[4], f32[4]");
  EXPECT_NEAR(row.speedup_over_static(), 3, 1e-9);
  EXPECT_NEAR(row.speedup_over_worst(), 3, 1e-9);
  EXPECT_EQ(row.extra_bytes, 16);
  const int timed = d.timed["fast"], slow = d.called["slow"], fast = d.called["fast"];
  EXPECT_GE(timed, 5) << "rounds";
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(d.timed["fast"], timed);
  EXPECT_EQ(d.called["slow"], slow);
  EXPECT_EQ(d.called["fast"], fast + 1);
  EXPECT_THAT(d.messages, IsEmpty());
}

TEST(MultiKernel, TheStaticChoiceWinsTies) {
  Doubling d;
  d.seconds = {{"static", 1e-3}, {"other", 0.998e-3}};
  const MultiKernel k(facts(), {d.variant("static"), d.variant("other")}, d.options());
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(k.picks()[0].picked, "static");
}

TEST(MultiKernel, AHopelessVariantTakesNoPartInTheRounds) {
  Doubling d;
  d.seconds = {{"static", 1}, {"fast", 1e-3}, {"slow", 0.5}};
  const MultiKernel k(facts(), {d.variant("static"), d.variant("fast"), d.variant("slow")},
                      d.options());
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(k.picks()[0].picked, "fast");
  EXPECT_LE(d.timed["static"], 3);
  EXPECT_LE(d.timed["slow"], 3);
}

TEST(MultiKernel, AWrongVariantIsDroppedWithAMessage) {
  Doubling d;
  d.seconds = {{"right", 2e-3}, {"wrong", 1e-3}};
  const MultiKernel k(facts(), {d.variant("right"), d.variant("wrong", {4}, 0.5F)}, d.options());
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(k.picks()[0].picked, "right");
  EXPECT_THAT(k.picks()[0].variants[1].dropped, HasSubstr("differs from that of 'right'"));
  ASSERT_EQ(d.messages.size(), 1U);
  EXPECT_THAT(d.messages[0], HasSubstr("'double': variant 'wrong' is dropped: its answer 'y'"));
}

TEST(MultiKernel, AnElementThatIsNotWrittenIsWrong) {
  Doubling d;
  d.seconds = {{"right", 2e-3}, {"part", 1e-3}};
  KernelVariant part = d.variant("part");
  part.function = [](std::span<const NDArray> a) {
    for (int i = 0; i < 3; ++i) a[1].data<float>()[i] = 2 * a[0].data<float>()[i];
  };
  const MultiKernel k(facts(), {d.variant("right"), part}, d.options());
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(k.picks()[0].picked, "right");
}

TEST(MultiKernel, WhatThrowsIsDroppedAndWhereAllThrowTheErrorIsSeen) {
  Doubling d;
  d.seconds = {{"broken", 1e-3}, {"right", 2e-3}};
  KernelVariant broken = d.variant("broken");
  broken.function = nullptr;
  broken.compile = []() -> Kernel { throw_user_error("no such instruction"); };
  const MultiKernel k(facts(), {broken, d.variant("right")}, d.options());
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(k.picks()[0].picked, "right");
  EXPECT_THAT(d.messages, ElementsAre(HasSubstr("'broken' is dropped: no such instruction")));
  KernelVariant again = broken;
  again.name = "again";
  again.code = "other";
  const MultiKernel none(facts(), {broken, again}, d.options());
  EXPECT_EQ(caught([&] { Doubling::wrong(none); }).message, "no such instruction");
}

// y += x: measuring calls the variants many times, and the caller's array sees one addition.
TEST(MultiKernel, InPlaceArgumentsAreProtected) {
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"b", 1e-3}};
  const auto adding = [&](const std::string& name) {
    KernelVariant v = d.variant(name);
    v.reads_outputs = true;
    v.function = [](std::span<const NDArray> a) {
      for (int64_t i = 0; i < a[0].size(); ++i) a[1].data<float>()[i] += a[0].data<float>()[i];
    };
    return v;
  };
  const MultiKernel k(facts(), {adding("a"), adding("b")}, d.options());
  const NDArray x = NDArray::full({4}, f32, 1), y = NDArray::full({4}, f32, 10);
  k(x, y);
  EXPECT_EQ(k.picks()[0].picked, "b");
  EXPECT_EQ(k.picks()[0].extra_bytes, 32);
  EXPECT_EQ(max_abs_diff(y, NDArray::full({4}, f32, 11)), 0);
  EXPECT_EQ(max_abs_diff(x, NDArray::full({4}, f32, 1)), 0);
  k(x, y);
  EXPECT_EQ(max_abs_diff(y, NDArray::full({4}, f32, 12)), 0);
}

TEST(MultiKernel, NothingIsMeasuredBeyondTheMemoryAllowed) {
  Doubling d;
  d.seconds = {{"static", 2e-3}, {"fast", 1e-3}};
  PickOptions o = d.options();
  o.extra_bytes = 15;
  const MultiKernel k(facts(), {d.variant("static"), d.variant("fast")}, o);
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(k.picks()[0].picked, "static");
  EXPECT_EQ(k.picks()[0].reason, PickReason::Static);
  EXPECT_EQ(d.timed["static"], 0);
  EXPECT_THAT(k.picks()[0].note, HasSubstr("needs 16 bytes"));
  EXPECT_THAT(d.messages, ElementsAre(HasSubstr("PickOptions::extra_bytes is 15")));
}

TEST(MultiKernel, TheDeadlineEndsMeasuringAndIsNotRemembered) {
  const Folder folder;
  Doubling d;
  d.seconds = {{"static", 2e-3}, {"fast", 1e-3}};
  for (const double seconds : {0.0, 1e-2}) {
    PickOptions o = d.options(folder.store());
    o.seconds = seconds;
    if (seconds > 0) {  // it is up once a variant was timed a few times
      o.time_call = [&](const std::string& name, FunctionRef<void()> call) {
        call();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return d.seconds.at(name);
      };
    }
    const MultiKernel k(facts(), {d.variant("static"), d.variant("fast")}, o);
    EXPECT_EQ(Doubling::wrong(k), "");
    EXPECT_THAT(k.picks()[0].note, HasSubstr("the time was up"));
    EXPECT_THAT(folder.store()->all(), IsEmpty());
    EXPECT_EQ(Doubling::wrong(k), "");
    EXPECT_EQ(k.picks().size(), 1U);
  }
}

TEST(MultiKernel, PicksAreForcedByNameOfThreeKinds) {
  Doubling d;
  d.seconds = {{"a", 1e-3}, {"b", 2e-3}};
  const auto make = [&](PickOptions o) {
    return MultiKernel(facts(), {d.variant("a"), d.variant("b")}, std::move(o));
  };
  PickOptions forced = d.options();
  forced.force = "b";
  const MultiKernel by_option = make(forced);
  EXPECT_EQ(Doubling::wrong(by_option), "");
  EXPECT_EQ(by_option.picks()[0].picked, "b");
  EXPECT_EQ(by_option.picks()[0].reason, PickReason::Forced);
  EXPECT_EQ(d.timed["b"], 0);
  {
    const Variable variable("HEDDLE_PICK", "other=zzz,double=b");
    const MultiKernel by_variable = make(d.options());
    EXPECT_EQ(Doubling::wrong(by_variable), "");
    EXPECT_EQ(by_variable.picks()[0].note, "by HEDDLE_PICK");
    const Variable plain("HEDDLE_PICK", "b");
    EXPECT_EQ(make(d.options())
                  .pick(std::vector{NDArray::zeros({4}, f32), NDArray::zeros({4}, f32)})
                  .picked,
              "b");
    const Variable unknown("HEDDLE_PICK", "bb");
    const Error e = caught([&] { make(d.options()); });
    EXPECT_EQ(e.kind, ErrorKind::User);
    EXPECT_THAT(e.message, HasSubstr("'double' has no variant 'bb'"));
    EXPECT_THAT(e.help, HasSubstr("it has a, b"));
  }
  const MultiKernel k = make(d.options());
  k.force("b");
  EXPECT_EQ(Doubling::wrong(k), "");
  k.force("");
  EXPECT_EQ(Doubling::wrong(k), "");
  ASSERT_EQ(k.picks().size(), 2U);
  EXPECT_EQ(k.picks()[0].picked, "b");
  EXPECT_EQ(k.picks()[1].picked, "a");
  EXPECT_EQ(k.picks()[1].reason, PickReason::Measured);
  EXPECT_EQ(caught([&] { k.force("c"); }).kind, ErrorKind::User);
}

TEST(MultiKernel, VariantsOfDifferentShapesAndAChooserOnThem) {
  Doubling d;
  d.seconds = {{"four", 1e-3}, {"any", 2e-3}, {"big", 3e-3}};
  PickOptions o = d.options();
  int asked = 0;
  o.choose = [&](const PickQuery& q) -> std::string {
    ++asked;
    EXPECT_EQ(q.features[0].first, "x.0");
    return q.features[0].second > 100 ? "big" : "";
  };
  const MultiKernel k(facts(),
                      {d.variant("four", {4}), d.variant("any", {-1}), d.variant("big", {-1})}, o);
  EXPECT_EQ(k.args()[0].shape[0], -1);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_EQ(Doubling::wrong(k, {4}), "");
    EXPECT_EQ(Doubling::wrong(k, {5}), "");
    EXPECT_EQ(Doubling::wrong(k, {500}), "");
  }
  EXPECT_EQ(asked, 3);
  const std::vector<PickRow> rows = k.picks();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].picked, "four");
  EXPECT_EQ(rows[1].picked, "any");
  EXPECT_EQ(rows[1].variants.size(), 2U) << "'four' does not take them";
  EXPECT_EQ(rows[2].picked, "big");
  EXPECT_EQ(rows[2].reason, PickReason::Chosen);
  const MultiKernel only(facts(), {d.variant("four", {4}), d.variant("five", {5})}, d.options());
  EXPECT_EQ(Doubling::wrong(only, {5}), "");
  EXPECT_EQ(only.picks()[0].reason, PickReason::Only);
  EXPECT_THAT(caught([&] { Doubling::wrong(only, {6}); }).message,
              HasSubstr("no variant of 'double' takes f32[6], f32[6]"));
}

TEST(MultiKernel, MoreShapesThanTheTableKeeps) {
  Doubling d;
  PickOptions o = d.options();
  o.choose = [](const PickQuery& q) { return q.features[0].second > 1500 ? "b" : "a"; };
  const MultiKernel k(facts(), {d.variant("a", {-1}), d.variant("b", {-1})}, o);
  for (int64_t n = 1; n < 5000; ++n) {
    const NDArray x = NDArray::full({n}, f32, 1), y = NDArray::zeros({n}, f32);
    k(x, y);
    ASSERT_EQ(y.get(n - 1), 2) << n;
  }
  EXPECT_GE(d.called["b"], 3499);
  EXPECT_EQ(Doubling::wrong(k, {7}), "");
}

TEST(MultiKernel, WrongArgumentsAreTheCallersErrors) {
  Doubling d;
  d.seconds = {{"a", 1e-3}, {"b", 2e-3}};
  const MultiKernel k(facts(), {d.variant("a"), d.variant("b")}, d.options());
  for (int settled = 0; settled < 2; ++settled) {
    const NDArray x = NDArray::zeros({4}, f32);
    EXPECT_THAT(caught([&] { k(x); }).message, HasSubstr("takes 2 arguments, but 1"));
    EXPECT_THAT(caught([&] { k(x, NDArray::zeros({5}, f32)); }).message, HasSubstr("shape"));
    EXPECT_THAT(caught([&] { k(x, x); }).message, HasSubstr("overlap"));
    EXPECT_THAT(caught([&] { k(x, NDArray()); }).message, HasSubstr("is no array"));
    EXPECT_EQ(k.picks().size(), static_cast<size_t>(settled));
    EXPECT_EQ(Doubling::wrong(k), "");
  }
  EXPECT_THAT(caught([] { MultiKernel()(NDArray()); }).message, HasSubstr("never built"));
  EXPECT_EQ(caught([&] { MultiKernel(facts(), {}); }).kind, ErrorKind::User);
  EXPECT_THAT(caught([&] { MultiKernel(facts(), {d.variant("a"), d.variant("a")}); }).message,
              HasSubstr("two variants"));
  EXPECT_THAT(
      caught([&] { MultiKernel(facts(), {d.variant("a"), d.variant("b", {4, 4})}); }).message,
      HasSubstr("another argument 0"));
}

TEST(MultiKernel, FirstCallsOfManyThreadsMeasureOnce) {
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"b", 1e-3}};
  const MultiKernel k(facts(), {d.variant("a"), d.variant("b")}, d.options());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) wrong += Doubling::wrong(k).empty() ? 0 : 1;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(k.picks().size(), 1U);
  EXPECT_EQ(k.picks()[0].picked, "b");
  EXPECT_EQ(d.called["b"], d.timed["b"] + 1 + 160) << "each call once, and one to compare";
}

TEST(MultiKernel, AVariantMayCallItsOwnMultiKernel) {
  Doubling d;
  d.seconds = {{"plain", 2e-3}, {"nested", 1e-3}};
  MultiKernel k;
  KernelVariant nested = d.variant("nested");
  int depth = 0;
  const auto plain = d.variant("plain").function;
  nested.function = [&](std::span<const NDArray> a) {
    if (++depth > 1) {
      plain(a);
    } else {
      k.call(a);
    }
    --depth;
  };
  k = MultiKernel(facts(), {d.variant("plain"), nested}, d.options());
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(k.picks().size(), 1U);
}

TEST(MultiKernel, EqualCodeIsOneVariantOfTwoNames) {
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"c", 1e-3}};
  KernelVariant same = d.variant("b");
  same.code = d.variant("a").code;
  const MultiKernel k(facts(), {d.variant("a"), same, d.variant("c")}, d.options());
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(d.called["b"], 0);
  EXPECT_EQ(k.picks()[0].variants.size(), 2U);
  k.force("b");
  EXPECT_EQ(k.pick(std::vector{NDArray::zeros({4}, f32), NDArray::zeros({4}, f32)}).picked, "a");
}

TEST(MultiKernel, EachPickIsALineOfTheLog) {
  const Folder folder;
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"b", 1e-3}};
  PickOptions o = d.options();
  o.log = folder / "picks.jsonl";
  const MultiKernel k(facts(), {d.variant("a", {-1}), d.variant("b", {-1})}, o);
  EXPECT_EQ(Doubling::wrong(k, {4}), "");
  EXPECT_EQ(Doubling::wrong(k, {4}), "");
  EXPECT_EQ(Doubling::wrong(k, {5}), "");
  const std::string text = read_file(o.log);
  ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  const Json line = Json::parse(text.substr(0, text.find('\n')));
  EXPECT_EQ(line.at("shapes").as_string(), "f32[4], f32[4]");
  EXPECT_NEAR(line.at("speedup_over_static").as_double(), 2, 1e-9);
  const PickRow row = PickRow::from_json(line);
  EXPECT_EQ(row.to_json(), line);
  EXPECT_EQ(row.variants[1].name, "b");
  EXPECT_GE(row.variants[1].seconds.size(), 5U);
}

}  // namespace
}  // namespace heddle::testing
