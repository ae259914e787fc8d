// Drafts: a generation that reads tokens that may come next says what it says without them, in fewer calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "generate/draws.h"
#include "generate/toy_splits.h"
#include "heddle/generate/generation.h"
#include "network/emulated_network.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using Lists = std::vector<std::vector<int64_t>>;

/// What a generation says step by step.
Lists said(Decoder& decoder, const Lists& prompts, const Sampling& how, const GenerationEnd& end) {
  Lists all(prompts.size());
  Generation words(decoder, prompts, how, end);
  for (std::vector<int64_t> t = words.next(); !t.empty(); t = words.next()) {
    for (size_t b = 0; b < t.size(); ++b)
      if (t[b] >= 0) all[b].push_back(t[b]);
  }
  return all;
}

class Drafts : public ::testing::Test {
 protected:
  OnnxModel model_of(const DecoderSizes& sizes, ToyMask mask = ToyMask::Values) const {
    return import_it(decoder_file(folder_, weights_, mask), sizes);
  }

  /// Drafts that are right but for a token here and there, of up to eight.
  std::vector<Draft> random_drafts(const Lists& want, const Lists& so_far, Rng& rng) const {
    std::vector<Draft> drafts(want.size());
    for (size_t b = 0; b < want.size(); ++b) {
      for (int64_t n = rng.uniform_int(0, 8), i = std::ssize(so_far[b]); n > 0; --n, ++i) {
        const bool right = i < std::ssize(want[b]) && rng.chance(0.8);
        drafts[b].tokens.push_back(right ? want[b][static_cast<size_t>(i)]
                                         : rng.uniform_int(0, kTokens - 1));
      }
    }
    return drafts;
  }

  /// A generation is over where each sequence has ended, or one that has not has no more room.
  static void expect_end(const Decoder& decoder, const Lists& got, const GenerationEnd& end,
                         uint64_t seed) {
    bool all_ended = true, is_full = false;
    for (size_t b = 0; b < got.size(); ++b) {
      ASSERT_FALSE(got[b].empty()) << "seed " << seed;
      if (std::ssize(got[b]) >= end.most || std::ranges::count(end.tokens, got[b].back()) > 0)
        continue;
      all_ended = false;
      is_full |= decoder.tokens(static_cast<int64_t>(b)) == decoder.capacity();
    }
    EXPECT_TRUE(all_ended || is_full) << "seed " << seed;
  }

  void expect_right(Decoder& decoder, uint64_t seeds) {
    Decoder one_by_one =
        decoder_of(model_of({.capacity = decoder.capacity(), .rows = 6, .batch = decoder.batch()}));
    const Lists all = {{1, 2, 3, 4, 5}, {6}, {0, 3}};
    const Lists prompts(all.begin(), all.begin() + decoder.batch());
    for (const Sampling& how : draws()) {
      for (const GenerationEnd& end :
           {GenerationEnd{}, GenerationEnd{{2}, 9}, GenerationEnd{{1, 4, 5}, 30}}) {
        const Lists want = said(one_by_one, prompts, how, end);
        for (uint64_t seed = 1; seed <= seeds; ++seed) {
          Rng rng(seed);
          Lists got(prompts.size());
          Generation words(decoder, prompts, how, end);
          for (;;) {
            // Both kinds of steps in turns.
            Lists next;
            if (rng.chance(0.3)) {
              for (const int64_t token : words.next())
                next.push_back(token < 0 ? std::vector<int64_t>() : std::vector{token});
            } else {
              next = words.next(random_drafts(want, got, rng));
            }
            if (next.empty()) break;
            for (size_t b = 0; b < next.size(); ++b)
              got[b].insert(got[b].end(), next[b].begin(), next[b].end());
          }
          expect_end(decoder, got, end, seed);
          for (size_t b = 0; b < got.size(); ++b) {
            // All end where one has no more room, and with drafts one may be ahead of the others.
            std::vector<int64_t> here = got[b], there = want[b];
            if (end.most > 9 && prompts.size() > 1) {
              here.resize(std::min(here.size(), there.size()));
              there.resize(here.size());
            }
            EXPECT_EQ(here, there) << "seed " << seed;
            EXPECT_EQ(decoder.tokens(static_cast<int64_t>(b)),
                      std::ssize(prompts[b]) + std::ssize(got[b]) - 1);
          }
        }
      }
    }
  }

  const ModelFolder folder_{"drafts"};
  const std::vector<NDArray> weights_ = random_weights(16, 0.6);
};

TEST_F(Drafts, SayWhatStepsSay) {
  for (const int64_t batch : {1, 3}) {
    Decoder decoder = decoder_of(model_of({.capacity = 20, .rows = 6, .batch = batch}));
    expect_right(decoder, 6);
  }
}

TEST_F(Drafts, SayTheSameWithBlocks) {
  Decoder decoder =
      decoder_of(model_of({.capacity = 20, .rows = 9, .batch = 3, .blocks = {3, 21}}));
  expect_right(decoder, 4);
}

TEST_F(Drafts, SayTheSameOnAGpu) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Target gpu = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  const OnnxModel model = model_of({.capacity = 16, .rows = 5, .batch = 2});
  const Network network(model.outputs, gpu, {}, {}, model.updates);
  emulate_network(driver, network, gpu);
  Decoder decoder(model, network);
  expect_right(decoder, 1);
}

// A generation ends where no block is left for its next token.
TEST_F(Drafts, EndWhereBlocksRunOut) {
  Decoder decoder = decoder_of(model_of({.capacity = 20, .rows = 6, .batch = 2, .blocks = {4, 5}}));
  const Lists steps = said(decoder, {{1, 2}, {3}}, {}, {});
  EXPECT_EQ(steps[0].size(), 8u) << "two blocks each, and the last token is not read";
  Generation words(decoder, {{1, 2}, {3}});
  Lists all(2);
  const std::vector<Draft> wrong(2, Draft{{0, 0, 0, 0, 0}, {}});
  for (Lists next = words.next(wrong); !next.empty(); next = words.next(wrong))
    for (size_t b = 0; b < 2; ++b) all[b].insert(all[b].end(), next[b].begin(), next[b].end());
  for (size_t b = 0; b < 2; ++b) {
    ASSERT_GE(all[b].size(), steps[b].size()) << b;
    EXPECT_TRUE(std::equal(steps[b].begin(), steps[b].end(), all[b].begin())) << b;
  }
}

// A draft that is right is one call.
TEST_F(Drafts, RightOnesAreOneCall) {
  Decoder decoder = decoder_of(model_of({.capacity = 24, .rows = 9, .batch = 1}));
  const Lists want = said(decoder, {{1, 2}}, {}, {.most = 10});
  Generation words(decoder, {{1, 2}}, {}, {.most = 10});
  EXPECT_EQ(words.next(std::vector<Draft>{{}}), (Lists{{want[0][0]}}));
  const std::vector<int64_t> rest(want[0].begin() + 1, want[0].end());
  EXPECT_EQ(words.next({Draft{{rest.begin(), rest.end() - 1}, {}}}), Lists{rest});
  EXPECT_TRUE(words.next({Draft{}}).empty());
}

TEST_F(Drafts, MistakesAreErrors) {
  Decoder last = decoder_of(last_logits(model_of({.capacity = 16, .rows = 6, .batch = 1})));
  Generation of_last(last, {{1}});
  EXPECT_THAT(message_of([&] { of_last.next({Draft{}}); }),
              HasSubstr("logits behind the last token of a call alone"));
  EXPECT_THAT(message_of([&] { last.step_rows(Lists{{1}}); }), HasSubstr("the last token"));
  Decoder decoder = decoder_of(model_of({.capacity = 16, .rows = 6, .batch = 1}));
  Generation words(decoder, {{1}});
  EXPECT_THAT(message_of([&] { words.next(std::vector<Draft>{}); }), HasSubstr("0 drafts"));
  words.next();
  EXPECT_THAT(message_of([&] { words.next({Draft{{kTokens}, {}}}); }),
              HasSubstr("token 7 is none of the vocabulary of 7"));
  EXPECT_THAT(message_of([&] { words.next({Draft{{1, 2}, {{1}}}}); }),
              HasSubstr("2 tokens has 1 lists of probabilities"));
  EXPECT_THAT(message_of([&] { words.next({Draft{{1}, {{1}}}}); }),
              HasSubstr("has 1 probabilities, and the vocabulary 7"));
  EXPECT_THAT(message_of([&] { words.next({Draft{{1}, {{1, 0, 0, 0, 0, 0, 0}}}}); }),
              HasSubstr("token 1 is drafted with a probability of 0"));
  EXPECT_THAT(message_of([&] { words.next({Draft{{1}, {{-1, 2, 0, 0, 0, 0, 0}}}}); }),
              HasSubstr("a draft gives token 0 a probability of -1"));
  EXPECT_THAT(message_of([&] { words.next({Draft{{1}, {{0, 1, 0, 0, 0, 0, NAN}}}}); }),
              HasSubstr("a draft gives token 6 a probability of"));
  EXPECT_THAT(message_of([&] { words.next({Draft{{1}, {{0, 1, 0, INFINITY, 0, 0, 0}}}}); }),
              HasSubstr("a draft gives token 3 a probability of inf"));
  for (const float share : {0.25F, 0.99F, 1.01F, 3.0F}) {
    EXPECT_THAT(message_of([&] { words.next({Draft{{1}, {{0, share, 0, 0, 0, 0, 0}}}}); }),
                HasSubstr("the probabilities of a draft sum to " + std::to_string(share)));
  }
  EXPECT_THAT(message_of([&] { decoder.forget(0, 2); }),
              HasSubstr("2 tokens cannot be forgotten of the 1"));
  EXPECT_EQ(words.next({Draft{}}).size(), 1u) << "it goes on";
  EXPECT_THAT(message_of([&] { decoder.step_rows(Lists{std::vector<int64_t>(7, 1)}); }),
              HasSubstr("7 tokens are read by several calls"));
  Decoder unmasked = decoder_of(model_of({.capacity = 16, .rows = 6, .batch = 2}, ToyMask::Shape));
  Generation both(unmasked, {{1}, {2}});
  both.next();
  EXPECT_THAT(message_of([&] { both.next({Draft{{1}, {}}, Draft{}}); }),
              HasSubstr("cannot take different drafts"));
  EXPECT_EQ(both.next({Draft{}, Draft{}}).size(), 2u);
}

// The caller keeps what a step returned, also where the next one has as many tokens and rows.
TEST_F(Drafts, WhatAStepReturnedStaysAsItIs) {
  Decoder decoder = decoder_of(model_of({.capacity = 16, .rows = 6, .batch = 1}));
  const NDArray first = decoder.step({1, 2, 3}), copy = first.copy();
  decoder.reset();
  decoder.step({4, 5, 6});
  EXPECT_TRUE(compare(first, copy, 0, 0).ok());
}

}  // namespace
}  // namespace heddle::testing
