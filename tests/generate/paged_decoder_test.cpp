// Decoders whose sequences share blocks of a cache: random splits give what each sequence gives alone, whatever its
// blocks are; blocks that run out and tables that name none are errors or defined results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "environment.h"
#include "generate/toy_splits.h"
#include "network/emulated_network.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Lists = std::vector<std::vector<int64_t>>;

/// A decoder at random, and what describes it.
struct Drawn {
  DecoderSizes sizes;
  ToyMask mask = ToyMask::Values;
  std::string text;
};

Drawn drawn(Rng& rng) {
  Drawn d;
  d.mask = rng.chance(0.5) ? ToyMask::Values : ToyMask::Lengths;
  d.sizes.capacity = rng.uniform_int(8, kLongest);
  d.sizes.rows = rng.uniform_int(1, std::min<int64_t>(8, d.sizes.capacity - 2));
  d.sizes.batch = rng.uniform_int(1, 5);
  if (rng.chance(0.75)) {
    RowBlocks& blocks = d.sizes.blocks;
    blocks.rows = rng.uniform_int(1, 9);
    const int64_t of_one = (d.sizes.capacity + blocks.rows - 1) / blocks.rows;
    if (rng.chance(0.7)) blocks.count = rng.uniform_int(of_one, of_one * d.sizes.batch);
  }
  d.text = "capacity " + std::to_string(d.sizes.capacity) + ", rows " +
           std::to_string(d.sizes.rows) + ", batch " + std::to_string(d.sizes.batch) + ", blocks " +
           std::to_string(d.sizes.blocks.count) + " of " + std::to_string(d.sizes.blocks.rows) +
           (d.mask == ToyMask::Values ? ", a mask" : ", lengths");
  return d;
}

class PagedDecoder : public ::testing::Test {
 protected:
  OnnxModel model_of(const DecoderSizes& sizes, ToyMask mask = ToyMask::Values) const {
    return last_logits(import_it(decoder_file(folder_, weights_, mask), sizes));
  }
  /// `each` cases of each of some decoders, until there are `count` of all.
  template <class Make>
  void expect_right(int64_t count, int64_t each, Make make) {
    const int64_t seed = number_from_env("HEDDLE_PROPERTY_SEED", 1);
    for (int64_t done = 0, of = seed; done < count; done += each, ++of) {
      Rng sizes(static_cast<uint64_t>(of));
      const Drawn d = drawn(sizes);
      Decoder decoder = make(model_of(d.sizes, d.mask));
      for (int64_t n = 1; n <= std::min(each, count - done); ++n) {
        Rng rng(static_cast<uint64_t>(of * 1000 + n));
        ASSERT_EQ(wrong_lengths(decoder, weights_, rng, d.sizes.blocks.rows), "")
            << d.text << "; HEDDLE_PROPERTY_SEED=" << of << ", case " << n;
      }
    }
    RecordProperty("cases", std::to_string(count));
  }

  const ModelFolder folder_{"paged"};
  const std::vector<NDArray> weights_ = random_weights(25, 0.6);
};

TEST_F(PagedDecoder, RandomSplitsGiveWhatEachSequenceGivesAlone) {
  expect_right(number_from_env("HEDDLE_PROPERTY_COUNT", 60), 10, decoder_of);
}

TEST_F(PagedDecoder, RandomSplitsOnAGpu) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Target gpu = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  expect_right(number_from_env("HEDDLE_PROPERTY_COUNT", 60) / 4, 5, [&](const OnnxModel& model) {
    const Network network(model.outputs, gpu, {}, {}, model.updates);
    emulate_network(driver, network, gpu);
    return Decoder(model, network);
  });
}

// A step that the GPU refuses can be made again: its table of blocks is sent, whichever of its copies failed.
TEST_F(PagedDecoder, StepsThatFailOnAGpuCanBeMadeAgain) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Target gpu = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  const OnnxModel model = model_of({.capacity = 16, .rows = 4, .batch = 2, .blocks = {4, 0}});
  const Network network(model.outputs, gpu, {}, {}, model.updates);
  emulate_network(driver, network, gpu);
  for (const char* name : {"memcpy_htod_async", "memcpy_dtoh_async"}) {
    Decoder decoder(model, network), same = decoder_of(model);
    const Lists first = {{1, 2, 3, 4}, {4, 3, 2, 1}}, second = {{5}, {6}};
    decoder.step_each(first);
    same.step_each(first);
    driver.failing[name] = 2;
    EXPECT_NE(message_of([&] { decoder.step_each(second); }), "") << name;
    driver.failing.clear();
    EXPECT_EQ(decoder.tokens(0), 4) << name;
    EXPECT_TRUE(compare(decoder.step_each(second), same.step_each(second), 1e-3, 1e-3).ok())
        << name;
  }
}

TEST_F(PagedDecoder, SequencesTakeBlocksAsTheyGrow) {
  Decoder decoder = decoder_of(model_of({.capacity = 16, .rows = 4, .batch = 3, .blocks = {4, 5}}));
  EXPECT_EQ(decoder.capacity(), 16);
  EXPECT_EQ(decoder.free_blocks(), 5);
  decoder.step_each(Lists{{1, 2, 3, 4, 5}, {}, {6}});
  EXPECT_THAT(decoder.blocks_of(0), ElementsAre(0, 1));
  EXPECT_THAT(decoder.blocks_of(1), ElementsAre());
  EXPECT_THAT(decoder.blocks_of(2), ElementsAre(2));
  EXPECT_THAT(message_of([&] { decoder.step_each(Lists{{1, 1, 1, 1}, {1, 2, 3, 4, 5}, {}}); }),
              HasSubstr("the tokens need 3 blocks more, and 2 of 5 are free"));
  EXPECT_EQ(decoder.tokens(0), 5);
  EXPECT_EQ(decoder.free_blocks(), 2) << "nothing is read, and nothing given";
  decoder.reset(0);
  EXPECT_EQ(decoder.free_blocks(), 4);
  decoder.step_each(Lists{{1}, {1, 2, 3, 4, 5}, {2}});
  EXPECT_EQ(decoder.free_blocks(), 1);
  decoder.reset();
  EXPECT_EQ(decoder.free_blocks(), 5);
}

// A state of all blocks, which may be fewer than the sequences would need at their largest.
TEST_F(PagedDecoder, StatesAreBlocks) {
  const OnnxModel some = model_of({.capacity = 20, .rows = 4, .batch = 3, .blocks = {8, 6}});
  const OnnxModel all = model_of({.capacity = 20, .rows = 4, .batch = 3, .blocks = {8, 0}});
  EXPECT_EQ(some.updates[0].state.extents(), (Extents{6, 8, kHeads, kDepth}));
  EXPECT_EQ(all.updates[0].state.extents(), (Extents{9, 8, kHeads, kDepth}));
  EXPECT_EQ(some.table.extents(), (Extents{3, 3}));
}

TEST_F(PagedDecoder, MistakesAreErrors) {
  EXPECT_THAT(message_of([&] { (void)model_of({.blocks = {-1, 0}}); }),
              HasSubstr("0 blocks of -1 rows are no memory"));
  for (const int64_t rows : {int64_t{17}, INT64_MAX}) {
    EXPECT_THAT(
        message_of([&] { (void)model_of({.capacity = 16, .rows = 2, .blocks = {rows, 0}}); }),
        HasSubstr("blocks of " + std::to_string(rows) + " rows are larger than a sequence of 16"));
  }
  for (const int64_t count : {int64_t{INT32_MAX} + 1, INT64_MAX}) {
    EXPECT_THAT(
        message_of([&] { (void)model_of({.capacity = 16, .rows = 2, .blocks = {4, count}}); }),
        HasSubstr(std::to_string(count) + " blocks are more than a table can name"));
  }
  EXPECT_THAT(message_of([&] { (void)model_of({.capacity = 16, .rows = 2, .blocks = {4, -2}}); }),
              HasSubstr("are no memory for states"));
  const std::string path = decoder_file(folder_, weights_);
  OnnxOptions options = decoder_options(path, {.capacity = 16, .rows = 2, .batch = 2});
  options.blocks = {4, 0};
  options.each_sequence = false;
  EXPECT_THAT(message_of([&] { (void)import_onnx(path, options); }),
              HasSubstr("set OnnxOptions::each_sequence"));
  Decoder decoder = decoder_of(model_of({.capacity = 12, .rows = 2, .batch = 2, .blocks = {4, 0}}));
  EXPECT_THAT(message_of([&] { decoder.step_each(Lists{std::vector<int64_t>(13, 1), {}}); }),
              HasSubstr("more than the capacity, 12"));
  EXPECT_THAT(message_of([&] { (void)decoder.blocks_of(2); }), HasSubstr("no sequence 2"));
}

/// The outputs and states of a call of `rows` tokens and `total` rows, by the interpreter.
std::vector<NDArray> interpreted(const OnnxModel& model, const std::vector<NDArray>& inputs,
                                 int64_t rows, int64_t total) {
  std::vector<Tensor> all = model.outputs;
  for (const StateUpdate& u : model.updates) all.push_back(u.next);
  std::vector<SizeValue> sizes;
  for (const Dim& d : model.dims) sizes.push_back({d, d.name() == "seq" ? rows : total});
  const Instance at = at_sizes(all, sizes);
  std::vector<TensorValue> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto read = [&](const auto& pair) { return pair.first.same_as(model.inputs[i]); };
    if (std::ranges::any_of(at.tensors, read))
      values.push_back({at.of(model.inputs[i]), inputs[i]});
  }
  return interpret(at.of(all), values);
}

// The network itself is given lengths and a table of anything: it computes what the declaration says, and rows without
// a block are written nowhere.
TEST_F(PagedDecoder, TablesOfAnythingReadAndWriteTheCacheAlone) {
  for (const ToyMask mask : {ToyMask::Values, ToyMask::Lengths}) {
    const OnnxModel model =
        model_of({.capacity = 12, .rows = 3, .batch = 2, .blocks = {4, 5}}, mask);
    const Network network(model.outputs, Target::host(), {}, {}, model.updates);
    const NetworkKernel run = network.build(model.args());
    Decoder decoder(model, network);
    for (uint64_t seed = 1; seed < 40; ++seed) {
      Rng rng(seed);
      decoder.reset();
      decoder.step_each(Lists{{1, 2, 3, 4, 5}, {6, 5}});
      std::vector<NDArray> arrays = decoder.inputs_of(Lists{{1, 4}, {2}});
      for (size_t i = 0; i < arrays.size(); ++i) {
        const bool table = model.inputs[i].same_as(model.table);
        if (!table && !model.inputs[i].same_as(model.lengths)) continue;
        for (int64_t p = 0; p < arrays[i].size(); ++p) {
          if (rng.chance(0.3)) arrays[i].set(p, static_cast<double>(rng.uniform_int(-4, 14)));
          if (rng.chance(0.1)) arrays[i].set(p, rng.chance(0.5) ? 2147483647.0 : -2147483648.0);
        }
      }
      const std::vector<NDArray> want = interpreted(model, arrays, 2, 7);
      arrays.push_back(NDArray::zeros({2, kTokens}, f32));
      run.call(arrays);
      EXPECT_TRUE(compare(arrays.back(), want[0], 1e-3, 1e-3).ok()) << "seed " << seed;
      for (size_t u = 0; u < model.updates.size(); ++u) {
        for (size_t i = 0; i < model.inputs.size(); ++i)
          if (model.inputs[i].same_as(model.updates[u].state)) {
            EXPECT_TRUE(compare(arrays[i], want[u + 1], 1e-4, 1e-4).ok()) << "seed " << seed;
          }
      }
    }
  }
}

}  // namespace
}  // namespace heddle::testing
