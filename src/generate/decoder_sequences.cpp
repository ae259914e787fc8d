// The sequences of a Decoder: their tokens and blocks, and what they have room for.
#include <algorithm>
#include <string>

#include "generate/blocks.h"
#include "generate/call_memory.h"
#include "heddle/generate/decoder.h"
#include "heddle/support/error.h"

namespace heddle {

int64_t Decoder::tokens(int64_t sequence) const {
  const auto b = static_cast<size_t>(sequence);
  int64_t n = counts_[b];
  for (const Started& step : started_) n -= step.ahead[b];
  return n;
}

int64_t Decoder::length() const {
  int64_t most = 0;
  for (int64_t b = 0; b < batch_; ++b) most = std::max(most, tokens(b));
  return most;
}

void Decoder::reset() {
  release();
  counts_.assign(static_cast<size_t>(batch_), 0);
  if (blocks_) blocks_->release_all();
  last_.fill(0);
  if (memory_) memory_->mark();
}

void Decoder::reset(int64_t sequence) {
  const auto b = static_cast<size_t>(check_of_sequence(sequence, "begin anew"));
  release();
  counts_[b] = 0;
  if (blocks_) blocks_->release(b);
  last_.rows(sequence, sequence + 1).fill(0);
  if (memory_) memory_->mark();
}

/// The number of a sequence that may have another length than others.
int64_t Decoder::check_of_sequence(int64_t sequence, const std::string& what) const {
  if (sequence < 0 || sequence >= batch_)
    throw_user_error("there is no sequence " + std::to_string(sequence) + " in a batch of " +
                     std::to_string(batch_));
  if (!masked_ && batch_ > 1)
    throw_user_error("a sequence cannot " + what + " beside others without a mask and lengths", {},
                     "reset all");
  return sequence;
}

void Decoder::forget(int64_t sequence, int64_t tokens) {
  const auto b = static_cast<size_t>(check_of_sequence(sequence, "forget tokens"));
  if (tokens < 0 || tokens > this->tokens(sequence))
    throw_user_error(std::to_string(tokens) + " tokens cannot be forgotten of the " +
                     std::to_string(this->tokens(sequence)) + " that sequence " +
                     std::to_string(sequence) + " has read");
  release();
  counts_[b] -= tokens;
}

int64_t Decoder::free_blocks() const { return blocks_ ? blocks_->unused() : 0; }

std::vector<int64_t> Decoder::blocks_of(int64_t sequence) const {
  if (sequence < 0 || sequence >= batch_)
    throw_user_error("there is no sequence " + std::to_string(sequence) + " in a batch of " +
                     std::to_string(batch_));
  return blocks_ ? blocks_->of(static_cast<size_t>(sequence)) : std::vector<int64_t>();
}

int64_t Decoder::room(const std::vector<bool>& reads, int64_t wanted) const {
  const auto fits = [&](int64_t more) {
    std::vector<int64_t> rows = counts_;
    for (size_t b = 0; b < rows.size(); ++b) {
      if (!reads[b]) continue;
      rows[b] += more;
      if (rows[b] > capacity_) return false;
    }
    return !blocks_ || blocks_->missing(rows) <= blocks_->unused();
  };
  int64_t more = wanted;
  while (more > 0 && !fits(more)) --more;
  return more;
}

void Decoder::check_is_one_call(int64_t n) const {
  if (n > most_)
    throw_user_error(std::to_string(n) + " tokens are read by several calls", {},
                     "give at most " + std::to_string(most_));
}

void Decoder::check_has_rows() const {
  if (outputs_[logits_].rank() != 3)
    throw_user_error("the model has the logits behind the last token of a call alone", {},
                     "leave last_logits out");
}

/// The rows of each sequence with these tokens.
std::vector<int64_t> Decoder::rows_with(const Lists& ids) const {
  std::vector<int64_t> rows = counts_;
  for (size_t b = 0; b < rows.size(); ++b) rows[b] += std::ssize(ids[b]);
  return rows;
}

/// The columns of a step with these tokens. Throws where it is none.
int64_t Decoder::check(const Lists& ids) const {
  if (std::ssize(ids) != batch_)
    throw_user_error(std::to_string(ids.size()) + " lists of tokens are given for a batch of " +
                         std::to_string(batch_),
                     {}, "give a list for each sequence");
  int64_t n = 0;
  for (const std::vector<int64_t>& list : ids) n = std::max<int64_t>(n, std::ssize(list));
  if (n == 0) throw_user_error("no sequence gets tokens", {}, "give at least one to one of them");
  for (size_t b = 0; b < ids.size(); ++b) {
    if (std::ssize(ids[b]) != n && !masked_)
      throw_user_error(
          "the sequences have different lengths, and the model has no mask to hide what "
          "shorter ones do not have, or keeps no lengths",
          {},
          "export it with attention_mask (batch, total) and position_ids as inputs, and "
          "import it with OnnxOptions::each_sequence");
    if (const int64_t there = counts_[b]; there + std::ssize(ids[b]) > capacity_)
      throw_user_error(std::to_string(ids[b].size()) + " tokens behind " + std::to_string(there) +
                           " are more than the capacity, " + std::to_string(capacity_),
                       {}, "import the model with a longer past, or reset the decoder");
    for (const int64_t id : ids[b]) {
      if (id < 0 || id >= vocabulary_)
        throw_user_error("token " + std::to_string(id) + " is none of the vocabulary of " +
                         std::to_string(vocabulary_));
    }
  }
  if (const int64_t more = blocks_ ? blocks_->missing(rows_with(ids)) : 0;
      more > 0 && more > blocks_->unused())
    throw_user_error("the tokens need " + std::to_string(more) + " blocks more, and " +
                         std::to_string(blocks_->unused()) + " of " +
                         std::to_string(blocks_->count()) + " are free",
                     {}, "reset sequences that have ended, or import the model with more blocks");
  const int64_t chunks = (n + most_ - 1) / most_;
  if (n / chunks < fewest_)
    throw_user_error("the model reads " + std::to_string(fewest_) + " to " + std::to_string(most_) +
                         " tokens at a time, which " + std::to_string(n) + " do not divide into",
                     {}, "import the model with a range of tokens that begins at 1");
  return n;
}

}  // namespace heddle
