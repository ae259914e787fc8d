// Precision by bound for a decoder: each product in the fastest type with which the logits stay within a
// tolerance.
//
//   OnnxModel model = last_logits(import_onnx("gpt2.onnx", decoder_options("gpt2.onnx")));
//   Network network(model.outputs, Target::host(), {}, {}, model.updates);
//   PrecisionChoice choice = choose_precision(model, network, {.tolerance = 1e-2});
//   Decoder decoder(model, network.with_passes(choice.options));
//
// Types are chosen as quantize/precision.h says, in the call that reads the last token of a text, where the keys and
// values of the others are there. Then the decoder with these types reads the texts that decide from their beginning,
// with keys and values of its own: a part of the text at once, and each token behind that alone. While its logits
// are further off than the tolerance, the product of the largest error is left in f32.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heddle/generate/decoder.h"
#include "heddle/quantize/precision.h"

namespace heddle {

/// Options of choose_precision() for a decoder.
struct DecoderPrecisionOptions {
  double tolerance = 0.01;  ///< not negative
  /// Tokens of texts, at least two for each sequence of the batch, of which as many tokens are read as the
  /// shortest has. Those of calls at even places choose, the others decide. Empty: `drawn` texts for each
  /// sequence that the model itself draws, of `length` tokens.
  std::vector<std::vector<int64_t>> texts = {};
  int drawn = 8;
  int64_t length = 48;
  uint64_t seed = 1;
  /// As PrecisionOptions::seconds and PrecisionOptions::time.
  double seconds = 120;
  std::function<double(const Network&)> time = {};
};

/// Chooses the types. `model` and `network` as Decoder takes them. Logits, and the keys and values that
/// are new, are the outputs whose error counts. A User error for a tolerance that is negative or no number, for texts of
/// less than two tokens or more than the capacity, for fewer than two for each sequence, and for tokens outside of the
/// vocabulary.
PrecisionChoice choose_precision(const OnnxModel& model, const Network& network,
                                 const DecoderPrecisionOptions& options = {});

}  // namespace heddle
