// Types of a decoder's products under a bound of the error of its logits.
#include "heddle/generate/precision.h"

#include "heddle/support/rng.h"
#include "network/network_testing.h"
#include "onnx/model_builder.h"
#include "onnx/toy_decoder.h"
#include "quantize/precision/operand_types.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using Lists = std::vector<std::vector<int64_t>>;

/// Each product of shorter numbers gains a second, one of bytes two.
double counted(const Network& network) {
  double seconds = 100;
  for (const auto& [name, type] : network.pass_options().types)
    seconds -= type.type.bits == 8 ? 2 : 1;
  return seconds;
}

/// Whether products of shorter numbers have no instruction here.
bool types_missing() { return quantize::operand_types(Target::host()).empty(); }

Lists random_texts(size_t count, int64_t length, uint64_t seed) {
  Rng rng(seed);
  Lists texts(count);
  for (std::vector<int64_t>& text : texts)
    for (int64_t t = 0; t < length; ++t) text.push_back(rng.uniform_int(0, kTokens - 1));
  return texts;
}

class DecoderPrecision : public ::testing::Test {
 protected:
  OnnxModel model_of(const DecoderSizes& sizes, ToyMask mask = ToyMask::Values) const {
    const std::string path = decoder_file(folder_, weights_, mask);
    return last_logits(import_onnx(path, decoder_options(path, sizes)));
  }
  static Network network_of(const OnnxModel& model) {
    return Network(model.outputs, Target::host(), {}, {}, model.updates);
  }
  /// The error of logits behind each token of texts that neither chose nor decided.
  static double error_elsewhere(const OnnxModel& model, const PassOptions& passes, int64_t length) {
    Decoder f32_decoder(model, network_of(model)),
        typed(model, network_of(model).with_passes(passes));
    double difference = 0, largest = 0;
    for (const std::vector<int64_t>& text : random_texts(6, length, 99)) {
      f32_decoder.reset();
      typed.reset();
      for (int64_t t = 0; t < length; ++t) {
        const Lists next(static_cast<size_t>(model.inputs[0].extent(0)),
                         {text[static_cast<size_t>(t)]});
        const NDArray want = f32_decoder.step_each(next), got = typed.step_each(next);
        for (int64_t i = 0; i < want.size(); ++i) {
          difference = std::max(difference, std::abs(want.get(i) - got.get(i)));
          largest = std::max(largest, std::abs(want.get(i)));
        }
      }
    }
    return difference / largest;
  }

  const ModelFolder folder_{"decoder_precision"};
  std::vector<NDArray> weights_ = random_weights(16, 0.6);
};

TEST_F(DecoderPrecision, LogitsStayWithinTheToleranceWithOwnKeysAndValues) {
  if (types_missing()) GTEST_SKIP() << "this CPU has no instructions for shorter numbers";
  constexpr double kTolerance = 3e-2;
  const OnnxModel model = model_of({24, 3, 2});
  const PrecisionChoice choice = choose_precision(
      model, network_of(model),
      {.tolerance = kTolerance, .texts = random_texts(32, 12, 5), .time = counted});
  ASSERT_EQ(choice.outcome, PrecisionOutcome::Some) << choice.to_string();
  EXPECT_LE(choice.error, kTolerance);
  EXPECT_EQ(choice.options.tolerance, kTolerance);
  const double error = error_elsewhere(model, choice.options, 12);
  EXPECT_LE(error, 2 * kTolerance) << choice.to_string();
  EXPECT_GT(error, 0) << "no product of shorter numbers";
  // The types are those of the network that draws, too.
  const OnnxModel draws = with_draws(model);
  Decoder with(draws, network_of(draws).with_passes(choice.options)),
      without(model, network_of(model).with_passes(choice.options));
  for (const int64_t id : {1, 4, 2}) {
    const NDArray a = with.step({id, 0}), b = without.step({id, 0});
    for (int64_t i = 0; i < a.size(); ++i) EXPECT_EQ(a.get(i), b.get(i));
  }
}

TEST_F(DecoderPrecision, WithoutTextsTheModelDrawsThem) {
  if (types_missing()) GTEST_SKIP() << "this CPU has no instructions for shorter numbers";
  const OnnxModel model = model_of({20, 6, 1}, ToyMask::Shape);
  const PrecisionChoice choice = choose_precision(
      model, network_of(model), {.tolerance = 0.1, .drawn = 4, .length = 10, .time = counted});
  EXPECT_EQ(choice.outcome, PrecisionOutcome::Some) << choice.to_string();
  EXPECT_EQ(choice.calls, 4 * 6) << "parts of the texts";
}

TEST_F(DecoderPrecision, TextsThatDoNotFitAreErrors) {
  const OnnxModel model = model_of({20, 6, 2});
  const auto with = [&](const Lists& texts) {
    return message_of([&] { (void)choose_precision(model, network_of(model), {.texts = texts}); });
  };
  EXPECT_THAT(with(random_texts(3, 8, 1)), HasSubstr("texts for 1 calls"));
  EXPECT_THAT(with({{1, 2}, {3}, {1, 2}, {3, 4}}), HasSubstr("fewer than two tokens"));
  EXPECT_THAT(with(random_texts(4, 21, 1)), HasSubstr("more than the capacity"));
  EXPECT_THAT(with({{1, 99}, {3, 3}, {1, 2}, {3, 4}}), HasSubstr("none of the vocabulary"));
}

}  // namespace
}  // namespace heddle::testing
