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
      given_(prompts.size()),
      started_(prompts.size()),
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
  decoder_.start(prompts, {how_, numbers(), false});
  ++pending_;
  for (int64_t& n : started_) ++n;
}

/// The draws that come next.
std::vector<uint64_t> Generation::numbers() const {
  std::vector<uint64_t> all;
  for (size_t b = 0; b < started_.size(); ++b)
    all.push_back(static_cast<uint64_t>(started_[b]) * started_.size() + b);
  return all;
}

/// Whether a step has a token of the sequence.
bool Generation::reads(size_t sequence) const { return !ended_[sequence] || !decoder_.has_mask(); }

/// How many tokens more each sequence has room for, up to `wanted`.
int64_t Generation::room(int64_t wanted) const {
  std::vector<bool> read;
  for (size_t b = 0; b < ended_.size(); ++b) read.push_back(reads(b));
  return decoder_.room(read, wanted);
}

/// Reads the token that each sequence has last, which is known here or, `fed`, not yet.
void Generation::start(bool fed) {
  std::vector<std::vector<int64_t>> ids(ended_.size());
  for (size_t b = 0; b < ids.size(); ++b)
    if (reads(b)) ids[b] = {fed ? 0 : last_[b]};
  decoder_.start(ids, {how_, numbers(), fed});
  ++pending_;
  for (int64_t& n : started_) ++n;
}

/// A token of a sequence. Whether it goes on.
bool Generation::says(size_t sequence, int64_t token) {
  last_[sequence] = token;
  ended_[sequence] = ++given_[sequence] >= end_.most || std::ranges::count(end_.tokens, token) > 0;
  return !ended_[sequence];
}

void Generation::find_end() {
  over_ = over_ || std::ranges::count(ended_, false) == 0;
  if (over_) decoder_.drop_started();
}

void Generation::check_is_mine() const {
  if (!over_ && decoder_.generation_ != this)
    throw_user_error("the decoder has read something else since its last token was drawn", {},
                     "begin another generation");
}

std::vector<int64_t> Generation::next() {
  check_is_mine();
  if (!over_ && pending_ == 0) {
    over_ = room(1) == 0;
    if (!over_) start(/*fed=*/false);
  }
  if (over_) return {};
  // The first token is given before the graph of a step is recorded.
  bool more = false;
  for (size_t b = 0; b < ended_.size(); ++b)
    more |= !ended_[b] && given_[b] > 0 && given_[b] + 1 < end_.most;
  if (more && decoder_.runs_ahead(how_) && room(1) > 0) start(/*fed=*/true);
  std::vector<int64_t> tokens = decoder_.finish();
  --pending_;
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
    // A step that has begun meanwhile has read a token too many.
    if (!says(b, tokens[b]) && decoder_.has_mask()) decoder_.take_back(b);
  }
  find_end();
  return tokens;
}

void Generation::check(const std::vector<Draft>& drafts) const {
  if (drafts.size() != ended_.size())
    throw_user_error(std::to_string(drafts.size()) + " drafts are given for a batch of " +
                         std::to_string(ended_.size()),
                     {}, "give one for each sequence; it may be empty");
  for (const Draft& draft : drafts) {
    if (!draft.tokens.empty() && drafts.size() > 1 && !decoder_.has_mask())
      throw_user_error("the sequences of a model without a mask cannot take different drafts", {},
                       "draft for one sequence, or export the model with attention_mask");
    if (!draft.shares.empty() && draft.shares.size() != draft.tokens.size())
      throw_user_error("a draft of " + std::to_string(draft.tokens.size()) + " tokens has " +
                           std::to_string(draft.shares.size()) + " lists of probabilities",
                       {}, "give one for each token, or none");
    for (size_t i = 0; i < draft.shares.size(); ++i)
      check_shares(decoder_.vocabulary(), draft.tokens[i], draft.shares[i]);
  }
}

/// What a sequence says behind the row of the logits (batch, n, vocabulary) before its draft.
std::vector<int64_t> Generation::said(size_t sequence, const NDArray& logits, const Draft& draft,
                                      int64_t drafted) {
  std::vector<int64_t> tokens;
  const int64_t n = logits.extent(1), vocabulary = logits.extent(2);
  for (int64_t i = 0; i <= drafted; ++i) {
    const int64_t row = static_cast<int64_t>(sequence) * n + n - 1 - drafted + i;
    const std::span of_row(logits.data<float>() + row * vocabulary,
                           static_cast<size_t>(vocabulary));
    const uint64_t number =
        static_cast<uint64_t>(started_[sequence]++) * started_.size() + sequence;
    const auto at = static_cast<size_t>(i);
    const bool shared = i < drafted && !draft.shares.empty();
    tokens.push_back(shared
                         ? accept_or_draw(of_row, draft.tokens[at], draft.shares[at], how_, number)
                         : sample(of_row, how_, number));
    if (!says(sequence, tokens.back()) || i == drafted || tokens.back() != draft.tokens[at]) break;
  }
  return tokens;
}

std::vector<std::vector<int64_t>> Generation::next(const std::vector<Draft>& drafts) {
  check_is_mine();
  decoder_.check_has_rows();
  check(drafts);
  std::vector<std::vector<int64_t>> all;
  if (over_) return all;
  if (pending_ > 0) {
    for (const int64_t token : next()) {
      all.emplace_back();
      if (token >= 0) all.back().push_back(token);
    }
    return all;
  }
  int64_t longest = 0;
  for (const Draft& draft : drafts) longest = std::max(longest, std::ssize(draft.tokens));
  const int64_t most = room(std::min(decoder_.most(), longest + 1)) - 1;
  if (over_ = most < 0; over_) return all;
  std::vector<std::vector<int64_t>> ids(drafts.size());
  for (size_t b = 0; b < ids.size(); ++b) {
    if (!reads(b)) continue;
    ids[b] = {last_[b]};
    const int64_t left = ended_[b] ? 0 : end_.most - given_[b] - 1;
    const int64_t taken = std::min({most, left, std::ssize(drafts[b].tokens)});
    ids[b].insert(ids[b].end(), drafts[b].tokens.begin(), drafts[b].tokens.begin() + taken);
  }
  const NDArray logits = decoder_.logits_of_rows(ids);
  try {
    for (size_t b = 0; b < ids.size(); ++b) {
      all.emplace_back();
      if (ended_[b]) continue;
      const int64_t drafted = std::ssize(ids[b]) - 1;
      all[b] = said(b, logits, drafts[b], drafted);
      if (const int64_t wrong = drafted + 1 - std::ssize(all[b]); wrong > 0)
        decoder_.take_back(b, wrong);
    }
  } catch (...) {
    over_ = true;
    throw;
  }
  find_end();
  return all;
}

}  // namespace heddle
