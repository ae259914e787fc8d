// The tokens that a language model says after a prompt, one after another.
//
//   Decoder decoder(model, network);
//   Generation words(decoder, {{15496, 11, 995}}, {.temperature = 0.8, .seed = 7}, {.most = 32});
//   for (std::vector<int64_t> t = words.next(); !t.empty(); t = words.next()) std::cout << t[0] << "\n";
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/generate/decoder.h"

namespace heddle {

/// When a generation ends.
struct GenerationEnd {
  std::vector<int64_t> tokens = {};  ///< that end a sequence
  int64_t most = INT64_MAX;          ///< tokens of each sequence
};

/// Forgets what a decoder has read, and reads the prompts. Token n of sequence b is draw n * batch + b. A
/// sequence that has ended is left out of steps where the decoder has a mask; where it has none, it reads on.
///
/// On a GPU, where the decoder draws tokens itself (Decoder::draws), a step begins before the tokens of the one
/// before it are on the CPU. A sequence that these end reads a token more then, which is taken back, as is what
/// was read ahead where the decoder reads something else. The generation cannot go on after that: next() throws a
/// User error.
class Generation {
 public:
  /// Reads the prompts, one for each sequence of `decoder`, which must outlive this. Throws what
  /// Decoder::step_each and check_sampling throw, and a User error for an empty prompt.
  Generation(Decoder& decoder, const std::vector<std::vector<int64_t>>& prompts,
             const Sampling& how = {}, GenerationEnd end = {});
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// The next token of each sequence, -1 for one that has ended. Empty when all have ended, have as many as
  /// asked for, or one of them has no more room. Throws a Runtime error where no logit of a sequence is a number,
  /// which ends all.
  std::vector<int64_t> next();

 private:
  void start(bool fed);
  bool have_room() const;

  Decoder& decoder_;
  Sampling how_;
  GenerationEnd end_;
  std::vector<int64_t> last_;  ///< the tokens of each sequence that were drawn last
  std::vector<bool> ended_;
  int64_t given_ = 0;    ///< tokens of each sequence
  int64_t started_ = 0;  ///< steps
  bool over_ = false;
};

}  // namespace heddle
