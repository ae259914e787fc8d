// The tokens that a language model says after a prompt, one after another.
//
//   Decoder decoder(model, network);
//   Generation words(decoder, {{15496, 11, 995}}, {.temperature = 0.8, .seed = 7}, {.most = 32});
//   for (std::vector<int64_t> t = words.next(); !t.empty(); t = words.next())
//     std::cout << t[0] << "\n";
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

/// Tokens that may come next in a sequence, such as those of a smaller model.
struct Draft {
  std::vector<int64_t> tokens = {};
  /// Where the tokens were drawn: the probabilities (vocabulary) of which each was. Without them a
  /// token is taken where it is the one that would be drawn without drafts.
  std::vector<std::vector<float>> shares = {};
};

/// Forgets what a decoder has read, and reads the prompts. Token n of sequence b is draw n * batch
/// + b. A sequence that has ended is left out of steps where the decoder has a mask; where it has
/// none, it reads on.
///
/// On a GPU, where the decoder draws tokens itself (Decoder::draws), a step begins before the
/// tokens of the one before it are on the CPU. A sequence that these end reads a token more then,
/// which is taken back, as is what was read ahead where the decoder reads something else. The
/// generation cannot go on after that: next() throws a User error.
class Generation {
 public:
  /// Reads the prompts, one for each sequence of `decoder`, which must outlive this. Throws what
  /// Decoder::step_each and check_sampling throw, and a User error for an empty prompt.
  Generation(Decoder& decoder, const std::vector<std::vector<int64_t>>& prompts,
             const Sampling& how = {}, GenerationEnd end = {});
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// The next token of each sequence, -1 for one that has ended. Empty when all have ended, have as
  /// many as asked for, or one of them has no more room. Throws a Runtime error where no logit of a
  /// sequence is a number, which ends all.
  std::vector<int64_t> next();
  /// The next tokens of each sequence, by one call of the network that reads the drafts: those of
  /// its draft that are taken, and one more. Rows of the others are taken back. An empty list for a
  /// sequence that has ended; no lists when all have ended. The tokens are those of next() where
  /// drafts have no shares, and have the probabilities of these (accept_or_draw) where they do. The
  /// first call gives the token behind the prompts and takes no drafts. A draft that is longer than
  /// the room of all sequences, than what is asked for, or than one call reads is cut. Throws what
  /// next() and Decoder::step_rows throw, and a User error for another number of drafts and for
  /// tokens outside of the vocabulary.
  std::vector<std::vector<int64_t>> next(const std::vector<Draft>& drafts);

 private:
  void start(bool fed);
  bool reads(size_t sequence) const;
  int64_t room(int64_t wanted) const;
  std::vector<uint64_t> numbers() const;
  void check(const std::vector<Draft>& drafts) const;
  std::vector<int64_t> said(size_t sequence, const NDArray& logits, const Draft& draft,
                            int64_t drafted);
  bool says(size_t sequence, int64_t token);
  void check_is_mine() const;
  void find_end();

  Decoder& decoder_;
  Sampling how_;
  GenerationEnd end_;
  std::vector<int64_t> last_;  ///< the tokens of each sequence that were drawn last
  std::vector<bool> ended_;
  std::vector<int64_t> given_;    ///< tokens of each sequence
  std::vector<int64_t> started_;  ///< those, and what steps draw that are not finished
  int64_t pending_ = 0;           ///< these steps
  bool over_ = false;
};

}  // namespace heddle
