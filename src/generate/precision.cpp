#include "heddle/generate/precision.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "heddle/generate/generation.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "quantize/precision/output_error.h"

namespace heddle {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

// Calls that choose and decide: each has a copy of the keys and values.
constexpr int64_t kMostCalls = 32;
// Tokens of texts that are read as a whole.
constexpr int64_t kShort = 8;

/// The tokens `begin` to `end` - 1 of each sequence.
Lists part_of(const Lists& texts, int64_t begin, int64_t end) {
  Lists part;
  for (const std::vector<int64_t>& text : texts)
    part.emplace_back(text.begin() + begin, text.begin() + end);
  return part;
}

/// Texts that the model draws, behind a first token at random.
Lists drawn_texts(Decoder& decoder, uint64_t seed, int64_t length) {
  Rng rng(seed);
  Lists texts;
  for (int64_t b = 0; b < decoder.batch(); ++b)
    texts.push_back({rng.uniform_int(0, decoder.vocabulary() - 1)});
  Generation words(decoder, texts, {.seed = seed}, {.most = length - 1});
  for (std::vector<int64_t> next = words.next(); !next.empty(); next = words.next())
    for (size_t b = 0; b < texts.size(); ++b) texts[b].push_back(next[b]);
  return texts;
}

/// Texts in f32, and how far the decoder with types is from that.
class Texts {
 public:
  Texts(const OnnxModel& model, const Network& network, const DecoderPrecisionOptions& options)
      : model_(model), network_(in_f32(network)), decoder_(model, network_) {
    if (options.texts.empty()) {
      const int64_t length = std::min(options.length, decoder_.capacity());
      for (int c = 0; c < options.drawn; ++c)
        calls_.push_back(drawn_texts(decoder_, options.seed + static_cast<uint64_t>(c), length));
    } else {
      take(options.texts);
    }
    if (calls_.size() < 2)
      throw_user_error("there are texts for " + std::to_string(calls_.size()) +
                           " calls, and the types are chosen on some and verified on others",
                       {}, "give at least two for each sequence of the batch");
    length_ = std::ssize(calls_[0][0]);
    if (length_ < 2)
      throw_user_error("a text has fewer than two tokens", {}, "leave the shortest ones out");
  }

  const Network& network() const { return network_; }

  /// Calls that read the last token of parts of the texts, all of one length: bytes have the range of what these
  /// tokens show. Those of texts at even places are at even places.
  std::vector<std::vector<NDArray>> calls() {
    for (size_t c = 1; c < calls_.size(); c += 2)
      logits(decoder_, calls_[c], length_ - 1, &wanted_);
    const auto pairs = static_cast<int64_t>(calls_.size() / 2);
    const int64_t part = length_ < kShort ? length_ : length_ / 2;
    const int64_t parts = std::clamp<int64_t>(kMostCalls / (2 * pairs), 1, length_ - part + 1);
    std::vector<std::vector<NDArray>> calls;
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t end = length_ - (length_ - part) * p / parts;
      for (int64_t c = 0; c < 2 * std::min<int64_t>(pairs, kMostCalls / 2); ++c) {
        const Lists& text = calls_[static_cast<size_t>(c)];
        decoder_.reset();
        (void)decoder_.step_each(part_of(text, end - part, end - 1));
        calls.push_back(decoder_.inputs_of(part_of(text, end - 1, end)));
      }
    }
    return calls;
  }

  /// Calls that read the second half of the texts at once, as far as one call can.
  std::vector<std::vector<NDArray>> wider() {
    const int64_t n = std::min(decoder_.most(), length_ / 2);
    std::vector<std::vector<NDArray>> calls;
    for (size_t c = 0; c < std::min<size_t>(calls_.size(), kMostCalls); ++c) {
      decoder_.reset();
      (void)decoder_.step_each(part_of(calls_[c], 0, length_ - n));
      calls.push_back(decoder_.inputs_of(part_of(calls_[c], length_ - n, length_)));
    }
    return calls;
  }

  /// The error of the logits where products have these types.
  double error(const std::map<std::string, OperandType>& types) const {
    PassOptions passes = network_.pass_options();
    passes.types = types;
    Decoder typed(model_, network_.with_passes(passes));
    std::vector<NDArray> got;
    for (size_t c = 1; c < calls_.size(); c += 2) logits(typed, calls_[c], length_ - 1, &got);
    quantize::OutputError error;
    for (size_t i = 0; i < got.size(); ++i) error.add(got[i], wanted_[i]);
    return error.value();
  }

 private:
  static Network in_f32(const Network& network) {
    PassOptions passes = network.pass_options();
    passes.types.clear();
    passes.tolerance = 0;
    return network.with_passes(passes);
  }

  /// Texts for the sequences of calls.
  void take(const Lists& texts) {
    const auto batch = static_cast<size_t>(decoder_.batch());
    const auto shortest = std::ranges::min_element(texts, {}, &std::vector<int64_t>::size);
    for (size_t first = 0; first + batch <= texts.size(); first += batch) {
      Lists call;
      for (size_t b = 0; b < batch; ++b)
        call.emplace_back(texts[first + b].begin(),
                          texts[first + b].begin() + std::ssize(*shortest));
      calls_.push_back(std::move(call));
    }
  }

  /// Reads the texts up to `end`: half of that at once, and then each token. Appends the logits behind
  /// each step to `all`.
  static void logits(Decoder& decoder, const Lists& texts, int64_t end, std::vector<NDArray>* all) {
    decoder.reset();
    for (int64_t begin = 0; begin < end;) {
      const int64_t next = begin == 0 ? std::max<int64_t>(1, end / 2) : begin + 1;
      const NDArray behind = decoder.step_each(part_of(texts, begin, next));
      if (all != nullptr) all->push_back(behind.copy());
      begin = next;
    }
  }

  const OnnxModel& model_;
  const Network network_;
  Decoder decoder_;
  std::vector<Lists> calls_;  ///< of each the texts of all sequences
  int64_t length_ = 0;
  std::vector<NDArray> wanted_;  ///< the logits of the texts that decide
};

}  // namespace

PrecisionChoice choose_precision(const OnnxModel& model, const Network& network,
                                 const DecoderPrecisionOptions& options) {
  Texts texts(model, network, options);
  const PrecisionOptions of_calls{
      .tolerance = options.tolerance,
      .calls = texts.calls(),
      .seed = options.seed,
      .seconds = options.seconds,
      .wider = texts.wider(),
      .elsewhere =
          [&](const std::map<std::string, OperandType>& types) { return texts.error(types); },
      .time = options.time};
  return choose_precision(texts.network(), model.args(), of_calls);
}

}  // namespace heddle
