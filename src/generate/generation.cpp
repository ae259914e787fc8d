#include "heddle/generate/generation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "heddle/support/error.h"

namespace heddle {

Generation::Generation(Decoder& decoder, const std::vector<std::vector<int64_t>>& prompts,
                       const Sampling& how, GenerationEnd end)
    : decoder_(decoder),
      how_(how),
      end_(std::move(end)),
      last_(prompts.size()),
      ended_(prompts.size()),
      over_(end_.most < 1) {
  check_sampling(how);
  for (size_t b = 0; b < prompts.size(); ++b) {
    if (prompts[b].empty())
      throw_user_error("the prompt of sequence " + std::to_string(b) + " is empty", {},
                       "give it one token at least, such as that which begins a text");
  }
  decoder_.reset();
  decoder_.generation_ = this;
  if (over_) return;
  decoder_.start(prompts, {how_, 0, false});
  ++started_;
}

/// Reads the token that each sequence has last, which is known here or, `fed`, not yet.
void Generation::start(bool fed) {
  std::vector<std::vector<int64_t>> ids(ended_.size());
  for (size_t b = 0; b < ids.size(); ++b) {
    if (!ended_[b] || !decoder_.has_mask()) ids[b] = {fed ? 0 : last_[b]};
  }
  decoder_.start(ids, {how_, static_cast<uint64_t>(started_ * decoder_.batch()), fed});
  ++started_;
}

/// Whether each sequence that has not ended has room for a token more.
bool Generation::have_room() const {
  for (size_t b = 0; b < ended_.size(); ++b) {
    if (ended_[b] && decoder_.has_mask()) continue;
    if (!decoder_.has_room(b)) return false;
  }
  return true;
}

std::vector<int64_t> Generation::next() {
  if (!over_ && decoder_.generation_ != this)
    throw_user_error("the decoder has read something else since its last token was drawn", {},
                     "begin another generation");
  if (!over_ && started_ == given_) {
    over_ = !have_room();
    if (!over_) start(/*fed=*/false);
  }
  if (over_) return {};
  // The first token is given before the graph of a step is recorded.
  const bool ahead = given_ > 0 && given_ + 1 < end_.most && decoder_.runs_ahead(how_);
  if (ahead && have_room()) start(/*fed=*/true);
  std::vector<int64_t> tokens = decoder_.finish();
  ++given_;
  for (size_t b = 0; b < tokens.size(); ++b) {
    if (ended_[b]) {
      tokens[b] = -1;
      continue;
    }
    if (tokens[b] < 0) {
      over_ = true;
      decoder_.drop_started();
      throw_runtime_error("no logit of the model is a number");
    }
    last_[b] = tokens[b];
    ended_[b] = std::ranges::count(end_.tokens, tokens[b]) > 0;
    // A step that has begun meanwhile has read a token too many.
    if (ended_[b] && decoder_.has_mask()) decoder_.take_back(b);
  }
  over_ = given_ == end_.most || std::ranges::count(ended_, false) == 0;
  if (over_) decoder_.drop_started();
  return tokens;
}

}  // namespace heddle
