// Tokens one after another: those of a loop of steps and draws, on a CPU and on a GPU that the emulator is, which
// begins steps before it knows their tokens.
#include "heddle/generate/generation.h"

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "generate/draws.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"
#include "onnx/model_builder.h"
#include "onnx/toy_decoder.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using Lists = std::vector<std::vector<int64_t>>;

/// The tokens of each sequence, and how many each has read.
struct Said {
  Lists tokens;
  std::vector<int64_t> read;
  bool operator==(const Said&) const = default;
};

/// What a generation says.
Said said(Decoder& decoder, const Lists& prompts, const Sampling& how, const GenerationEnd& end) {
  Said all{Lists(prompts.size()), {}};
  Generation words(decoder, prompts, how, end);
  for (std::vector<int64_t> t = words.next(); !t.empty(); t = words.next()) {
    EXPECT_EQ(t.size(), prompts.size());
    for (size_t b = 0; b < t.size(); ++b)
      if (t[b] >= 0) all.tokens[b].push_back(t[b]);
  }
  EXPECT_TRUE(words.next().empty());
  for (int64_t b = 0; b < decoder.batch(); ++b) all.read.push_back(decoder.tokens(b));
  return all;
}

/// The same of a sequence alone, by steps that return logits and draws of these.
std::vector<int64_t> said_alone(Decoder& one, const std::vector<int64_t>& prompt, int64_t sequence,
                                int64_t batch, const Sampling& how, const GenerationEnd& end) {
  std::vector<int64_t> tokens;
  one.reset();
  NDArray logits = one.step(prompt);
  for (uint64_t n = 0; std::ssize(tokens) < end.most; ++n) {
    tokens.push_back(sample({logits.data<float>(), kTokens}, how,
                            n * static_cast<uint64_t>(batch) + static_cast<uint64_t>(sequence)));
    if (std::ranges::count(end.tokens, tokens.back()) > 0 || one.length() == one.capacity()) break;
    logits = one.step({tokens.back()});
  }
  return tokens;
}

class Generations : public ::testing::Test {
 protected:
  OnnxModel model_of(const DecoderSizes& sizes, ToyMask mask) const {
    const std::string path = decoder_file(folder_, weights_, mask);
    return last_logits(import_onnx(path, decoder_options(path, sizes)));
  }
  static Decoder on_cpu(const OnnxModel& model) {
    return Decoder(model, Network(model.outputs, Target::host(), {}, {}, model.updates));
  }
  /// What a decoder of three sequences of other lengths says is what each says alone.
  void expect_right(Decoder& decoder, int64_t most) {
    Decoder one = on_cpu(model_of({decoder.capacity(), 4, 1}, ToyMask::Values));
    const Lists prompts = {{1, 2, 3, 4, 5}, {6}, {0, 3}};
    for (const Sampling& how : draws()) {
      for (const std::vector<int64_t>& ends : {std::vector<int64_t>(), {2}, {1, 4, 5}}) {
        const GenerationEnd end{ends, most};
        const Said found = said(decoder, prompts, how, end);
        for (size_t b = 0; b < prompts.size(); ++b) {
          const std::vector<int64_t> want =
              said_alone(one, prompts[b], static_cast<int64_t>(b), 3, how, end);
          EXPECT_EQ(found.tokens[b], want) << "sequence " << b << " by seed " << how.seed;
          EXPECT_EQ(found.read[b], std::ssize(prompts[b]) + std::ssize(want) - 1);
        }
      }
    }
  }

  const ModelFolder folder_{"generations"};
  std::vector<NDArray> weights_ = random_weights(16, 0.6);
};

TEST_F(Generations, AreStepsAndDraws) {
  Decoder decoder = on_cpu(model_of({20, 4, 3}, ToyMask::Values));
  EXPECT_FALSE(decoder.draws({}));
  expect_right(decoder, 9);
}

TEST_F(Generations, ACpuMayDrawInTheNetwork) {
  Decoder decoder = on_cpu(with_draws(model_of({20, 4, 3}, ToyMask::Values)));
  EXPECT_TRUE(decoder.draws({.temperature = 2}));
  EXPECT_TRUE(decoder.draws({.top_k = 3})) << "the largest logit is drawn in any case";
  EXPECT_FALSE(decoder.draws({.temperature = 2, .top_k = 3}));
  EXPECT_FALSE(decoder.draws({.temperature = 2, .top_p = 0.5}));
  expect_right(decoder, 9);
}

TEST_F(Generations, EndWhereASequenceHasNoMoreRoom) {
  Decoder decoder = on_cpu(model_of({8, 4, 1}, ToyMask::Shape));
  const Said all = said(decoder, {{1, 2, 3}}, {}, {});
  EXPECT_EQ(all.tokens[0].size(), 6u);
  EXPECT_EQ(all.read[0], 8);
  EXPECT_TRUE(said(decoder, {{1, 2, 3}}, {}, {.most = 0}).tokens[0].empty());
}

TEST_F(Generations, SequencesWithoutAMaskReadOn) {
  Decoder decoder = on_cpu(model_of({16, 4, 2}, ToyMask::Shape));
  Decoder one = on_cpu(model_of({16, 4, 1}, ToyMask::Shape));
  const Lists prompts = {{1, 2}, {5, 6}};
  const GenerationEnd end{{0, 3}, 8};
  const Said all = said(decoder, prompts, draws()[1], end);
  for (int64_t b = 0; b < 2; ++b) {
    const auto at = static_cast<size_t>(b);
    EXPECT_EQ(all.tokens[at], said_alone(one, prompts[at], b, 2, draws()[1], end));
  }
}

TEST_F(Generations, EndWithTheUseOfTheirDecoder) {
  Decoder decoder = on_cpu(model_of({16, 4, 1}, ToyMask::Shape));
  Generation words(decoder, {{1, 2}});
  EXPECT_EQ(words.next().size(), 1u);
  decoder.step({3});
  EXPECT_THAT(message_of([&] { words.next(); }), HasSubstr("has read something else"));
  EXPECT_THAT(
      message_of([&] {
        (void)with_draws(import_onnx(decoder_file(folder_, weights_),
                                     decoder_options(decoder_file(folder_, weights_), {16, 4, 1})));
      }),
      HasSubstr("call last_logits first"));
}

TEST_F(Generations, BeginWithATokenOfEachSequence) {
  Decoder decoder = on_cpu(with_draws(model_of({16, 4, 2}, ToyMask::Values)));
  decoder.step({1, 2});
  EXPECT_THAT(message_of([&] { Generation(decoder, {{1, 2, 3}, {}}); }),
              HasSubstr("the prompt of sequence 1 is empty"));
  EXPECT_EQ(decoder.tokens(0), 1) << "nothing is forgotten";
}

class GpuGenerations : public Generations {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
    driver_.late = true;
  }
  Decoder on_gpu(const OnnxModel& model) {
    Network network(model.outputs, gpu_, {}, {}, model.updates);
    emulate_network(driver_, network, gpu_);
    return Decoder(model, network);
  }
  std::map<std::string, int> calls_of(Generation& words) {
    std::map<std::string, int> before = driver_.calls, made;
    EXPECT_EQ(words.next().size(), 1u);
    for (const auto& [name, count] : driver_.calls) {
      const bool counts = name == "memcpy_htod_async" || name == "memcpy_dtoh_async" ||
                          name == "graph_launch" || name == "launch_kernel" ||
                          name == "launch_kernel_ex" || name == "event_synchronize" ||
                          name == "stream_synchronize" || name == "memcpy_dtod_async";
      if (counts && count > before[name]) made[name] = count - before[name];
    }
    return made;
  }

  const Target gpu_ = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver_;
  const cuda::ScopedDriver scope_{&driver_.api()};
};

TEST_F(GpuGenerations, SayWhatEachSequenceSaysAlone) {
  Decoder decoder = on_gpu(with_draws(model_of({16, 4, 3}, ToyMask::Values)));
  EXPECT_FALSE(decoder.draws({.temperature = 2, .top_k = 3}));
  expect_right(decoder, 6);
}

// Steps that begin ahead take blocks, too, and their table is sent where it changes.
TEST_F(GpuGenerations, SayTheSameWithBlocks) {
  const DecoderSizes sizes{.capacity = 16, .rows = 4, .batch = 3, .blocks = {3, 13}};
  Decoder decoder = on_gpu(with_draws(model_of(sizes, ToyMask::Values)));
  expect_right(decoder, 6);
}

TEST_F(GpuGenerations, DrawWithLimits) {
  Decoder decoder = on_gpu(with_draws(model_of({16, 4, 2}, ToyMask::Values), {}, /*limits=*/true));
  Decoder one = on_cpu(model_of({16, 4, 1}, ToyMask::Values));
  const Sampling how{.temperature = 2, .top_k = 4, .top_p = 0.8, .seed = 5};
  EXPECT_TRUE(decoder.draws(how));
  const Lists prompts = {{1, 2, 3}, {6}};
  const Said found = said(decoder, prompts, how, {{}, 4});
  for (size_t b = 0; b < prompts.size(); ++b)
    EXPECT_EQ(found.tokens[b],
              said_alone(one, prompts[b], static_cast<int64_t>(b), 2, how, {{}, 4}));
}

TEST_F(GpuGenerations, AreTheSameWhereTheCpuDraws) {
  Decoder decoder = on_gpu(model_of({16, 4, 3}, ToyMask::Values));
  EXPECT_FALSE(decoder.draws({}));
  expect_right(decoder, 6);
}

TEST_F(GpuGenerations, ReadToTheLastRow) {
  // Of the shorter one, tiles of keys are longer than the state.
  for (const int64_t capacity : {16, 8}) {
    SCOPED_TRACE(capacity);
    driver_.kernels.clear();
    Decoder decoder = on_gpu(with_draws(model_of({capacity, 4, 1}, ToyMask::Shape)));
    Decoder one = on_cpu(model_of({capacity, 4, 1}, ToyMask::Shape));
    const Said all = said(decoder, {{1, 2, 3}}, {}, {});
    EXPECT_EQ(all.tokens[0], said_alone(one, {1, 2, 3}, 0, 1, {}, {}));
    EXPECT_EQ(all.read[0], capacity);
  }
}

TEST_F(GpuGenerations, ATokenIsOneGraphAndACopyEachWay) {
  Decoder decoder = on_gpu(with_draws(model_of({24, 4, 1}, ToyMask::Shape)));
  for (int turn = 0; turn < 2; ++turn) {  // the graphs of all lengths are made
    Generation before(decoder, {{1, 2, 3}}, draws()[1]);
    while (!before.next().empty()) {
    }
  }
  Generation words(decoder, {{1, 2, 3}}, draws()[1]);
  for (int n = 0; n < 4; ++n) calls_of(words);
  for (int n = 0; n < 6; ++n) {
    EXPECT_THAT(calls_of(words),
                ::testing::UnorderedElementsAre(
                    std::pair("memcpy_htod_async", 1), std::pair("memcpy_dtoh_async", 1),
                    std::pair("graph_launch", 1), std::pair("event_synchronize", 1)));
  }
}

TEST_F(GpuGenerations, TheFirstTokenWaitsForNoOtherStep) {
  Decoder decoder = on_gpu(with_draws(model_of({24, 4, 1}, ToyMask::Shape)));
  Generation words(decoder, {{1, 2, 3}});
  EXPECT_THAT(calls_of(words), ::testing::UnorderedElementsAre(std::pair("event_synchronize", 1)));
}

TEST_F(GpuGenerations, WhatIsReadAheadIsTakenBack) {
  Decoder decoder = on_gpu(with_draws(model_of({24, 4, 1}, ToyMask::Shape)));
  Decoder one = on_cpu(model_of({24, 4, 1}, ToyMask::Shape));
  Generation words(decoder, {{1, 2, 3}});
  const std::vector<int64_t> first = words.next();
  EXPECT_EQ(decoder.tokens(0), 3);
  const std::vector<int64_t> second = words.next();
  EXPECT_EQ(decoder.length(), 4);
  const NDArray logits = decoder.step(second);
  EXPECT_EQ(decoder.length(), 5);
  one.step({1, 2, 3, first[0]});
  const NDArray want = one.step(second);
  for (int64_t t = 0; t < kTokens; ++t) EXPECT_NEAR(logits.get(t), want.get(t), 1e-3);
  EXPECT_THAT(message_of([&] { words.next(); }), HasSubstr("has read something else"));
}

TEST_F(GpuGenerations, LogitsThatAreNoNumbersAreErrors) {
  weights_.back().fill(std::numeric_limits<double>::quiet_NaN());
  const OnnxModel model = model_of({16, 4, 1}, ToyMask::Shape);
  Decoder decoder = on_gpu(with_draws(model)), host = on_cpu(model);
  for (Decoder* const each : {&decoder, &host}) {
    EXPECT_THAT(message_of([&] { Generation(*each, {{1, 2, 3}}).next(); }),
                HasSubstr("no logit of the model is a number"));
    EXPECT_EQ(each->tokens(0), each == &host ? 0 : 3);
  }
  Generation words(decoder, {{1, 2, 3}});
  EXPECT_THAT(message_of([&] { words.next(); }), HasSubstr("no logit of the model is a number"));
  EXPECT_TRUE(words.next().empty());
}

}  // namespace
}  // namespace heddle::testing
