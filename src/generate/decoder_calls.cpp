// The calls of a Decoder: what they read and return.
#include <algorithm>
#include <exception>
#include <utility>

#include "generate/blocks.h"
#include "generate/call_memory.h"
#include "heddle/generate/decoder.h"
#include "heddle/support/error.h"

namespace heddle {

namespace {

/// Forgets what was read since it was made where an error ends its scope. The table of blocks is sent again then.
class Unread {
 public:
  Unread(std::vector<int64_t>& counts, size_t& turn, generate::Blocks* blocks)
      : counts_(counts), turn_(turn), blocks_(blocks), before_(counts), turn_before_(turn) {}
  Unread(const Unread&) = delete;
  Unread& operator=(const Unread&) = delete;
  ~Unread() {
    if (std::uncaught_exceptions() <= errors_) return;
    counts_ = std::move(before_);
    turn_ = turn_before_;
    if (blocks_) blocks_->set_changed(true);
  }

 private:
  std::vector<int64_t>& counts_;
  size_t& turn_;
  generate::Blocks* blocks_;  ///< null where there are none
  std::vector<int64_t> before_;
  size_t turn_before_;
  int errors_ = std::uncaught_exceptions();
};

}  // namespace

/// Calls the network. Its results are there once its work is done.
void Decoder::run(const Call& call) {
  if (memory_) memory_->begin();
  arrays_ = arrays_of(call);
  write(call, arrays_);
  turn_ = 1 - turn_;
  kernel_.call(arguments(call.draw.fed));
  for (size_t b = 0; b < counts_.size(); ++b) counts_[b] += call.tokens[b];
}

/// Reads tokens in calls of the network. Returns the last one.
Decoder::Call Decoder::read(const Lists& ids, const Draw& draw) {
  const int64_t n = check(ids);
  if (blocks_) blocks_->grow(rows_with(ids));
  for (int64_t begin = 0;;) {
    // The last chunks are of one length where what is left would be too few.
    const int64_t left = n - begin, rest = left % most_;
    const bool divided = rest > 0 && rest < fewest_;
    const int64_t now = divided ? left / ((left + most_ - 1) / most_) : std::min(most_, left);
    Call call = part(ids, begin, now, n);
    call.draw = draw;
    begin += now;
    run(call);
    // Lists end in the last chunk, so it has the logits of all of them.
    if (begin == n) return call;
    if (memory_) memory_->mark();
  }
}

/// Announces the call that is likely to come next: a token for each sequence that this one read.
void Decoder::expect_after(const Call& call) {
  int64_t total = 1;
  for (size_t b = 0; b < counts_.size(); ++b)
    total = std::max(total, counts_[b] + (call.tokens[b] > 0 ? 1 : 0));
  if (fewest_ > 1 || total > capacity_) return;
  Call next;
  next.n = 1;
  next.total = total;
  arrays_ = arrays_of(next, /*next=*/true);
  turn_ = 1 - turn_;
  kernel_.expect(arguments(/*fed=*/false));
  turn_ = 1 - turn_;
}

/// The logits behind the last token of each sequence after a call, (batch, vocabulary).
NDArray Decoder::logits_of(const Call& call) {
  const NDArray& logits = arrays_[inputs_.size() + logits_];
  const int64_t rows = logits.rank() == 2 ? 1 : call.n;
  const NDArray all = logits.view({batch_ * rows, vocabulary_});
  if (rows == 1 && std::ranges::count(call.tokens, 0) == 0) {
    if (masked_ && batch_ > 1) last_.copy_from(all);
    return all;
  }
  for (int64_t b = 0; b < batch_; ++b) {
    if (call.tokens[static_cast<size_t>(b)] == 0) continue;
    const int64_t row = (b + 1) * rows - 1;
    last_.rows(b, b + 1).copy_from(all.rows(row, row + 1));
  }
  return last_;
}

NDArray Decoder::step_each(const Lists& ids) {
  release();
  return logits_behind(ids);
}

NDArray Decoder::logits_behind(const Lists& ids) {
  const Unread on_error(counts_, turn_, blocks_.get());
  const Call call = read(ids, {});
  const NDArray logits = logits_of(call);
  if (!memory_) {
    if (logits.data() == last_.data()) return logits.copy();
    arrays_ = {};  // the caller has this memory now
    return logits;
  }
  NDArray result = memory_->receive(logits);
  memory_->mark();
  // The next step is prepared while this one works.
  expect_after(call);
  memory_->wait();
  return result;
}

NDArray Decoder::step_rows(const Lists& ids) {
  check_has_rows();
  check_is_one_call(check(ids));
  release();
  return logits_of_rows(ids);
}

NDArray Decoder::logits_of_rows(const Lists& ids) {
  const Unread on_error(counts_, turn_, blocks_.get());
  const Call call = read(ids, {});
  (void)logits_of(call);  // keeps the last ones
  NDArray logits = arrays_[inputs_.size() + logits_];
  if (memory_) {
    logits = logits.to_host();
    memory_->mark();
  } else {
    arrays_ = {};
  }
  return logits;
}

void Decoder::start(const Lists& ids, const Draw& draw) {
  const Unread on_error(counts_, turn_, blocks_.get());
  if (draws(draw.how)) {
    const Call call = read(ids, draw);
    (void)logits_of(call);
    const NDArray& tokens = tokens_[turn_];
    started_.push_back({memory_ ? memory_->receive_tokens(tokens) : tokens.copy(), call.tokens});
    if (!draw.fed) std::ranges::fill(started_.back().ahead, 0);
    if (memory_) memory_->mark();
    return;
  }
  const NDArray logits = logits_behind(ids), tokens = NDArray::full({batch_}, i64, -1);
  for (int64_t b = 0; b < batch_; ++b) {
    if (ids[static_cast<size_t>(b)].empty()) continue;
    const std::span row(logits.data<float>() + b * vocabulary_, static_cast<size_t>(vocabulary_));
    tokens.at<int64_t>({b}) = sample(row, draw.how, draw.numbers[static_cast<size_t>(b)]);
  }
  started_.push_back({tokens, std::vector<int64_t>(counts_.size())});
}

std::vector<int64_t> Decoder::finish() {
  const NDArray tokens = started_.front().tokens;
  started_.erase(started_.begin());
  if (memory_) memory_->wait(static_cast<int>(started_.size()));
  std::vector<int64_t> list;
  for (int64_t b = 0; b < batch_; ++b) list.push_back(static_cast<int64_t>(tokens.get(b)));
  return list;
}

/// Forgets the token that a sequence has read before it was known.
void Decoder::take_back(size_t sequence) {
  for (Started& step : started_) counts_[sequence] -= std::exchange(step.ahead[sequence], 0);
}

/// Forgets the steps whose tokens nothing has asked for.
void Decoder::drop_started() {
  for (size_t b = 0; b < counts_.size(); ++b) take_back(b);
  started_.clear();
}

/// Ends the generation that the decoder works for.
void Decoder::release() {
  drop_started();
  generation_ = nullptr;
}

}  // namespace heddle
