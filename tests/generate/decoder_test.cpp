// Decoders that keep keys and values. A model of a toy language is trained here, written as an ONNX
// file with past and present, and read again: what it generates is known, and what it computes for a
// whole sequence is what it computes token by token.
#include "heddle/generate/decoder.h"

#include <cmath>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "environment.h"
#include "generate/toy_splits.h"
#include "heddle/generate/sampling.h"
#include "heddle/support/rng.h"
#include "network/emulated_network.h"
#include "network/exported_library.h"
#include "network/network_testing.h"
#include "onnx/model_builder.h"
#include "onnx/toy_decoder.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

TEST(Decoder, AnySplitOfASequenceGivesTheLogitsOfTheWhole) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 24),
                seed = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  const ModelFolder folder("splits");
  const std::vector<NDArray> weights = random_weights(5, 0.6);
  for (const ToyMask mask : {ToyMask::Shape, ToyMask::Lengths}) {
    const std::string path = decoder_file(folder, weights, mask);
    for (const DecoderSizes& sizes :
         {DecoderSizes{20, 6, 1}, DecoderSizes{24, 3, 2}, DecoderSizes{12, 1, 3}}) {
      const OnnxModel model = import_it(path, sizes);
      EXPECT_EQ(model.updates.size(), 2u);
      EXPECT_EQ(model.outputs.size(), 1u);
      Decoder decoder = decoder_of(model);
      EXPECT_EQ(decoder.capacity(), sizes.capacity);
      for (int64_t n = seed; n < seed + count / 3; ++n) {
        Rng rng(static_cast<uint64_t>(n));
        EXPECT_EQ(wrong_split(decoder, weights, rng), "") << "seed " << n;
      }
    }
  }
}

TEST(Decoder, SequencesOfABatchHaveLengthsOfTheirOwn) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 24),
                seed = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  const ModelFolder folder("lengths");
  const std::vector<NDArray> weights = random_weights(15, 0.6);
  for (const ToyMask mask : {ToyMask::Values, ToyMask::Lengths}) {
    const std::string path = decoder_file(folder, weights, mask);
    for (const DecoderSizes& sizes :
         {DecoderSizes{20, 6, 2}, DecoderSizes{24, 3, 3}, DecoderSizes{12, 1, 5}}) {
      Decoder decoder = decoder_of(last_logits(import_it(path, sizes)));
      EXPECT_TRUE(decoder.has_mask());
      for (int64_t n = seed; n < seed + count / 3; ++n) {
        Rng rng(static_cast<uint64_t>(n));
        EXPECT_EQ(wrong_lengths(decoder, weights, rng), "") << "seed " << n;
      }
    }
  }
}

TEST(Decoder, LengthsOfTheirOwnNeedAMask) {
  const ModelFolder folder("unmasked");
  Decoder decoder = decoder_of(import_it(decoder_file(folder, random_weights(7, 0.5)), {8, 2, 2}));
  using Lists = std::vector<std::vector<int64_t>>;
  EXPECT_FALSE(decoder.has_mask());
  EXPECT_THAT(message_of([&] { decoder.step_each(Lists{{1, 2}, {3}}); }),
              HasSubstr("the model has no mask to hide what shorter ones do not have"));
  EXPECT_THAT(message_of([&] { decoder.step_each(Lists{{1}}); }), HasSubstr("1 lists of tokens"));
  EXPECT_THAT(message_of([&] { decoder.step_each(Lists{{}, {}}); }),
              HasSubstr("no sequence gets tokens"));
  EXPECT_THAT(message_of([&] { decoder.step_each(Lists{{}, {3}}); }),
              HasSubstr("different lengths"));
  EXPECT_THAT(message_of([&] { decoder.reset(1); }), HasSubstr("reset all"));
  EXPECT_THAT(message_of([&] { decoder.reset(2); }), HasSubstr("no sequence 2"));
  decoder.step_each(Lists{{1}, {3}});
  EXPECT_EQ(decoder.length(), 1);
}

/// The operations of the stage of the logits at the most rows.
double flops_of_logits(const OnnxModel& model) {
  const Instance most = at_sizes(
      model.outputs, {{model.dims[0], model.dims[0].hi()}, {model.dims[1], model.dims[1].hi()}});
  const ComputeDag dag(most.outputs);
  const int s = dag.index_of(most.outputs[0].op());
  return dag.info(s).flops;
}

TEST(Decoder, TheLogitsOfTheLastTokenAreOneRowOfTheProduct) {
  const ModelFolder folder("last");
  const std::vector<NDArray> weights = random_weights(4, 0.6);
  const OnnxModel all = import_it(decoder_file(folder, weights), {20, 6, 2}),
                  last = last_logits(all);
  EXPECT_EQ(last.outputs[0].rank(), 2);
  EXPECT_EQ(flops_of_logits(all), 6 * flops_of_logits(last));
  Decoder decoder = decoder_of(last);
  for (uint64_t seed = 1; seed < 8; ++seed) {
    Rng rng(seed);
    EXPECT_EQ(wrong_split(decoder, weights, rng), "") << "seed " << seed;
  }
  EXPECT_THAT(message_of([&] { (void)last_logits(last); }), HasSubstr("has not the shape"));
}

// Two ranges have sizes in common, at which their difference vanishes from the places of rows.
TEST(Decoder, PassesHoldForLongChunks) {
  const ModelFolder folder("passes");
  const std::string path = decoder_file(folder, random_weights(3, 0.6));
  for (const DecoderSizes& sizes :
       {DecoderSizes{300, 200, 1}, DecoderSizes{300, 64, 1}, DecoderSizes{130, 128, 1}}) {
    const OnnxModel model = last_logits(import_it(path, sizes));
    const Network network(model.outputs, Target::host(), {}, {}, model.updates);
    bool joined = false;
    for (const PassApplication& a : network.passes()) {
      EXPECT_THAT(a.text, ::testing::Not(HasSubstr("left out"))) << sizes.rows << ": " << a.pass;
      joined |= a.pass == "join_products";
    }
    EXPECT_TRUE(joined) << sizes.rows;
  }
}

/// A decoder on a GPU that the emulator is.
class GpuDecoder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  }
  Network network_of(const OnnxModel& model) {
    Network network(model.outputs, gpu_, {}, {}, model.updates);
    emulate_network(driver_, network, gpu_);
    return network;
  }
  OnnxModel model_of(const DecoderSizes& sizes, ToyMask mask = ToyMask::Shape) const {
    return import_it(decoder_file(folder_, weights_, mask), sizes);
  }

  const Target gpu_ = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver_;
  const cuda::ScopedDriver scope_{&driver_.api()};
  const ModelFolder folder_{"gpu"};
  const std::vector<NDArray> weights_ = random_weights(6, 0.6);
};

TEST_F(GpuDecoder, GivesTheLogitsOfTheWhole) {
  for (const ToyMask mask : {ToyMask::Shape, ToyMask::Lengths}) {
    const OnnxModel all = model_of({16, 4, 1}, mask);
    for (const OnnxModel& model : {all, last_logits(all)}) {
      Decoder decoder(model, network_of(model));
      for (uint64_t seed = 1; seed < 5; ++seed) {
        Rng rng(seed);
        driver_.late = seed % 2 == 0;
        EXPECT_EQ(wrong_split(decoder, weights_, rng), "") << "seed " << seed;
      }
    }
  }
}

TEST_F(GpuDecoder, ReadsSequencesOfDifferentLengths) {
  for (const ToyMask mask : {ToyMask::Values, ToyMask::Lengths}) {
    const OnnxModel model = last_logits(model_of({16, 4, 2}, mask));
    Decoder decoder(model, network_of(model));
    for (uint64_t seed = 1; seed < 5; ++seed) {
      Rng rng(seed);
      driver_.late = seed % 2 == 0;
      EXPECT_EQ(wrong_lengths(decoder, weights_, rng), "") << "seed " << seed;
    }
  }
}

/// The calls of the driver since `before` that a step may make more than once.
std::map<std::string, int> since(const std::map<std::string, int>& before,
                                 const std::map<std::string, int>& now) {
  std::map<std::string, int> made;
  for (const char* const name :
       {"memcpy_htod_async", "memcpy_dtoh_async", "graph_launch", "launch_kernel",
        "launch_kernel_ex", "stream_synchronize", "event_synchronize", "mem_alloc_host"}) {
    const int count =
        (now.contains(name) ? now.at(name) : 0) - (before.contains(name) ? before.at(name) : 0);
    if (count != 0) made[name] = count;
  }
  return made;
}

TEST_F(GpuDecoder, AStepIsTwoCopiesAndAGraph) {
  const OnnxModel model = last_logits(model_of({16, 4, 1}));
  Decoder decoder(model, network_of(model));
  NDArray logits;
  // Kernels for other lengths are another graph, which is made at the second step that has them.
  for (int turn = 0; turn < 3; ++turn) {
    decoder.reset();
    logits = decoder.step({1, 2, 3});
    for (int64_t n = 3; n < 6 + (turn < 2 ? 6 : 0); ++n) logits = decoder.step({n % 6});
  }
  for (int64_t n = 0; n < 6; ++n) {
    const std::map<std::string, int> before = driver_.calls;
    logits = decoder.step({n});
    EXPECT_THAT(since(before, driver_.calls),
                ::testing::UnorderedElementsAre(
                    std::pair("memcpy_htod_async", 1), std::pair("memcpy_dtoh_async", 1),
                    std::pair("graph_launch", 1), std::pair("event_synchronize", 1)));
  }
}

TEST_F(GpuDecoder, AStepThatFailsHasReadNothing) {
  const OnnxModel model = last_logits(model_of({24, 4, 1}));
  Decoder decoder(model, network_of(model));
  const NDArray ids = NDArray::from<int64_t>({3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 2}, {1, 12});
  const NDArray want = whole(weights_, ids);
  int failed = 0;
  for (int64_t n = 0; n < 12; ++n) {
    for (const char* const name : {"graph_instantiate", "event_synchronize", "event_record"}) {
      driver_.failing[name] = cuda::api::kOutOfMemory;
      try {
        decoder.step({ids.at<int64_t>({0, n})});
        decoder.reset();
        driver_.failing.clear();
        for (int64_t i = 0; i < n; ++i) decoder.step({ids.at<int64_t>({0, i})});
      } catch (const Error&) {
        ++failed;
      }
      driver_.failing.clear();
      EXPECT_EQ(decoder.length(), n) << name;
    }
    EXPECT_EQ(differ(decoder.step({ids.at<int64_t>({0, n})}), want, n), "");
  }
  EXPECT_GE(failed, 24);
}

TEST_F(GpuDecoder, WhatAStepReturnedStaysAsItIs) {
  const OnnxModel model = last_logits(model_of({16, 4, 1}));
  Decoder decoder(model, network_of(model));
  const NDArray ids = NDArray::from<int64_t>({1, 5, 2, 0, 3, 6, 4, 1, 2, 3}, {1, 10});
  const NDArray want = whole(weights_, ids);
  std::vector<NDArray> all;
  for (int64_t i = 0; i < 10; ++i) all.push_back(decoder.step({ids.at<int64_t>({0, i})}));
  decoder.reset();
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(differ(all[static_cast<size_t>(i)], want, i), "");
}

TEST_F(GpuDecoder, TwoMayTakeTurns) {
  driver_.late = true;
  const OnnxModel model = last_logits(model_of({16, 4, 1}));
  const Network network = network_of(model);
  Decoder one(model, network), two(model, network);
  const NDArray ids = NDArray::from<int64_t>({3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 2}, {1, 12});
  const NDArray want = whole(weights_, ids);
  Rng rng(1);
  while (one.length() < 12 || two.length() < 12) {
    Decoder& next = (rng.chance(0.5) && one.length() < 12) || two.length() == 12 ? one : two;
    const int64_t at = next.length();
    EXPECT_EQ(differ(next.step({ids.at<int64_t>({0, at})}), want, at), "");
  }
}

TEST(Decoder, KeysAndValuesHaveTheTypeOfTheWeights) {
  const ModelFolder folder("bf16");
  const std::vector<NDArray> weights = random_weights(8, 0.4);
  const std::string path = decoder_file(folder, weights);
  OnnxOptions options = decoder_options(path, {16, 4, 1});
  options.precision = bf16;
  const OnnxModel model = import_onnx(path, options);
  for (const StateUpdate& u : model.updates) EXPECT_EQ(u.state.dtype(), bf16);
  Decoder decoder = decoder_of(model);
  NDArray ids = NDArray::from<int64_t>({1, 5, 2, 0, 3, 6, 4, 1, 2}, {1, 9});
  const NDArray want = whole(weights, ids);
  for (int64_t i = 0; i < 9; ++i) {
    const NDArray logits = decoder.step({ids.at<int64_t>({0, i})});
    for (int64_t t = 0; t < kTokens; ++t)
      EXPECT_NEAR(logits.at<float>({0, t}), want.at<float>({0, i, t}), 0.1);
  }
}

TEST(Decoder, ALibraryUpdatesTheStatesOfItsCaller) {
  const ModelFolder folder("library");
  const std::vector<NDArray> weights = random_weights(9, 0.6);
  const OnnxModel model = import_it(decoder_file(folder, weights), {12, 4, 1});
  const Network network(model.outputs, Target::host(), {}, {}, model.updates);
  const ExportedNetwork written =
      export_network(network, model.args(), folder.path().string(),
                     {.name = "decoder", .arg_names = model.arg_names()});
  const ExportedLibrary library(written.library, "decoder");
  auto* run =
      library.find<int(void*, int64_t, int64_t, const void* const*, void* const*)>("decoder_run");
  void* opened = library.open(nullptr);
  ASSERT_NE(opened, nullptr) << library.error();
  const NDArray ids = NDArray::from<int64_t>({2, 6, 1, 3, 5, 0, 4}, {1, 7});
  const NDArray want = whole(weights, ids);
  std::vector<NDArray> states;
  const auto step = [&](int64_t begin, int64_t n, const NDArray& logits) {
    std::vector<const void*> inputs;
    size_t state = 0;
    NDArray places = NDArray::zeros({1, n}, i64), length = NDArray::zeros({begin + n}, u8);
    for (int64_t i = 0; i < n; ++i) places.set(i, static_cast<double>(begin + i));
    for (size_t i = 0; i < model.inputs.size(); ++i) {
      const std::string& name = model.input_names[i];
      if (name == "input_ids") {
        inputs.push_back(ids.data<int64_t>() + std::max<int64_t>(begin, 0));
      } else if (name == "position_ids") {
        inputs.push_back(places.data());
      } else if (name == "total") {
        inputs.push_back(length.data());
      } else {
        if (states.size() == state)
          states.push_back(NDArray::zeros(model.inputs[i].extents(), f32));
        inputs.push_back(states[state++].data());
      }
    }
    void* outputs[] = {logits.data()};
    const bool total_first = network.sizes()[0]->name == "total";
    return total_first ? run(opened, begin + n, n, inputs.data(), outputs)
                       : run(opened, n, begin + n, inputs.data(), outputs);
  };
  const NDArray three = NDArray::zeros({1, 3, kTokens}, f32),
                one = NDArray::zeros({1, 1, kTokens}, f32);
  EXPECT_THAT(read_file(written.header), HasSubstr("A call writes its results into inputs "));
  ASSERT_EQ(step(0, 3, three), 0) << library.error();
  EXPECT_EQ(differ(three.view({3, kTokens}).rows(2, 3), want, 2), "");
  for (int64_t i = 3; i < 7; ++i) {
    ASSERT_EQ(step(i, 1, one), 0) << library.error();
    EXPECT_EQ(differ(one.view({1, kTokens}), want, i), "");
  }
  EXPECT_NE(step(-2, 3, three), 0);
  EXPECT_THAT(library.error(), HasSubstr("writes rows -2 to 0"));
  library.close(opened);
}

TEST(Decoder, MistakesAreErrors) {
  const ModelFolder folder("mistakes");
  const std::string path = decoder_file(folder, random_weights(7, 0.5));
  const OnnxModel model = import_it(path, {8, 2, 1});
  Decoder decoder = decoder_of(model);
  EXPECT_THAT(message_of([&] { decoder.step({1, 2, 7}); }),
              HasSubstr("token 7 is none of the vocabulary of 7"));
  EXPECT_THAT(message_of([&] { decoder.step(std::vector<int64_t>()); }), HasSubstr("at least one"));
  decoder.step({1, 2, 3, 4, 5, 6, 0});
  EXPECT_THAT(message_of([&] { decoder.step({1, 2}); }),
              HasSubstr("2 tokens behind 7 are more than the capacity, 8"));
  EXPECT_EQ(decoder.length(), 7);
  decoder.step({1});
  EXPECT_THAT(message_of([&] { decoder.step({1}); }), HasSubstr("more than the capacity"));
  EXPECT_THAT(message_of([&] { (void)decoder_options(path, {4, 3, 1}); }),
              HasSubstr("for 4 tokens, 3 at a time"));
  EXPECT_THAT(message_of([&] {
                (void)import_onnx(path, {.dims = {{"batch", 1}, {"seq", 1}, {"past", 3}},
                                         .sums = {{"total", {"past", "seq"}}},
                                         .states = true});
              }),
              HasSubstr("states need a range"));
  EXPECT_THAT(message_of([&] {
                (void)import_onnx(path, {.dims = {{"batch", 1}, {"seq", 1}},
                                         .sums = {{"total", {"past", "seq"}}}});
              }),
              HasSubstr("is a sum with 'past', which has no extent"));
}

/// In the toy language each token is the sum of the two before it, modulo their number.
void fill(NDArray& ids, NDArray& labels, Rng& rng) {
  const int64_t n = ids.extent(1);
  for (int64_t b = 0; b < ids.extent(0); ++b) {
    int64_t x = rng.uniform_int(0, kTokens - 1), y = rng.uniform_int(0, kTokens - 1);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t next = (x + y) % kTokens;
      ids.at<int64_t>({b, i}) = y;
      // What follows the first token is not known from it.
      labels.at<int64_t>({b * n + i}) = i == 0 ? -1 : next;
      x = y;
      y = next;
    }
  }
}

/// Trains with weights and states of Adam that each step updates in place.
std::vector<NDArray> trained_weights() {
  constexpr int64_t kBatch = 16, kLength = 10;
  constexpr int kSteps = 900;
  const Tensor ids = placeholder({kBatch, kLength}, i64, "ids"),
               labels = placeholder({kBatch * kLength}, i64, "labels"),
               number = placeholder({1}, f32, "number"), rate = placeholder({1}, f32, "rate");
  std::vector<Tensor> w;
  for (const Weight& each : weights_of_model())
    w.push_back(placeholder(each.shape, f32, each.name));
  const Tensor logits = ops::reshape(whole_model(ids, w), {kBatch * kLength, kTokens});
  const Tensor loss = ops::softmax_cross_entropy(logits, labels);
  const std::vector<Tensor> d = gradient(std::vector<Tensor>{loss}, w);
  std::vector<Tensor> args{ids, labels, number, rate};
  std::vector<NDArray> arrays{NDArray::zeros({kBatch, kLength}, i64),
                              NDArray::zeros({kBatch * kLength}, i64), NDArray::zeros({1}, f32),
                              NDArray::zeros({1}, f32)};
  std::vector<StateUpdate> updates;
  const std::vector<NDArray> begin = random_weights(11, 0.4);
  for (size_t i = 0; i < w.size(); ++i) {
    const Tensor mean = placeholder(w[i].shape(), f32, "mean"),
                 square = placeholder(w[i].shape(), f32, "square");
    const ops::Moments next = ops::adam(w[i], d[i], mean, square, number, rate);
    updates.insert(updates.end(),
                   {{w[i], next.parameter}, {mean, next.mean}, {square, next.square}});
    args.insert(args.end(), {w[i], mean, square});
    arrays.insert(arrays.end(), {begin[i], zeros_like(begin[i]), zeros_like(begin[i])});
  }
  args.push_back(loss);
  arrays.push_back(NDArray::zeros({}, f32));
  const NetworkKernel step = Network({loss}, Target::host(), {}, {}, updates).build(args);
  Rng rng(3);
  for (int n = 1; n <= kSteps; ++n) {
    fill(arrays[0], arrays[1], rng);
    arrays[2].set(0, n);
    arrays[3].set(0, 1e-2 * std::cos(1.5 * n / kSteps));
    step.call(arrays);
  }
  EXPECT_LT(arrays.back().get(0), 0.1);
  return begin;
}

TEST(Decoder, AModelThatIsTrainedHereSpeaksTheToyLanguage) {
  const ModelFolder folder("toy");
  const OnnxModel model = import_it(decoder_file(folder, trained_weights()), {kLongest, 4, 1});
  Decoder decoder = decoder_of(model);
  int right = 0, all = 0;
  for (int64_t x = 0; x < kTokens; ++x) {
    for (int64_t y = 0; y < kTokens; ++y) {
      decoder.reset();
      NDArray logits = decoder.step({x, y});
      int64_t a = x, b = y;
      for (int n = 0; n < 8; ++n, ++all) {
        const int64_t want = (a + b) % kTokens;
        const int64_t id = sample({logits.data<float>(), kTokens}, {}, 0);
        right += id == want;
        a = b;
        b = want;
        logits = decoder.step({want});
      }
    }
  }
  EXPECT_GE(right, all * 98 / 100) << "of " << all;
}

}  // namespace
}  // namespace heddle::testing
