// The arguments of the calls of a Decoder.
#include <algorithm>
#include <optional>
#include <utility>

#include "generate/blocks.h"
#include "generate/call_memory.h"
#include "heddle/generate/decoder.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"

namespace heddle {

using generate::CallMemory;

namespace {

int64_t value_of(const Expr& e, const Var& rows, int64_t n, const Var& total, int64_t length) {
  const std::optional<Affine> sum = as_affine(e);
  HEDDLE_ICHECK(sum.has_value(), "extents of a decoder are sums of its sizes");
  int64_t value = sum->constant;
  for (const Affine::Term& t : sum->terms) {
    const bool of_rows = rows.get() && t.var.same_as(rows),
               of_total = total.get() && t.var.same_as(total);
    HEDDLE_ICHECK(of_rows || of_total, "a decoder has two sizes");
    value += t.coefficient * (of_rows ? n : length);
  }
  return value;
}

}  // namespace

Extents Decoder::extents(const Tensor& t, const Call& call) const {
  Extents out;
  for (const Expr& e : t.shape()) out.push_back(value_of(e, rows_, call.n, total_, call.total));
  return out;
}

void Decoder::find_memory() {
  using Written = CallMemory::Written;
  Call largest;
  largest.n = most_;
  largest.total = capacity_;
  std::vector<CallMemory::Part> parts;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    CallMemory::Part& part = parts.emplace_back();
    if (roles_[i] == Role::State) continue;
    part = {extents(inputs_[i], largest), inputs_[i].dtype(), Written::EachCall};
    if (roles_[i] == Role::Length) part.written = Written::Never;
    if (roles_[i] == Role::Mask || roles_[i] == Role::Table) part.written = Written::Sometimes;
  }
  for (const Tensor& t : outputs_) parts.push_back({extents(t, largest), t.dtype()});
  memory_ = std::make_shared<CallMemory>(std::move(parts), last_.shape(), device_);
}

/// Columns begin to begin + n - 1 of `all`, in which lists end at the last.
Decoder::Call Decoder::part(const Lists& ids, int64_t begin, int64_t n, int64_t all) const {
  Call call;
  call.n = call.total = n;
  for (size_t b = 0; b < ids.size(); ++b) {
    const int64_t missing = all - std::ssize(ids[b]), end = begin + n;
    const int64_t tokens = std::clamp<int64_t>(end - missing, 0, n);
    call.ids.insert(call.ids.end(), static_cast<size_t>(n - tokens), 0);
    const auto last = ids[b].begin() + std::max<int64_t>(end - missing, 0);
    call.ids.insert(call.ids.end(), last - tokens, last);
    call.tokens.push_back(tokens);
    call.total = std::max(call.total, counts_[b] + tokens);
  }
  return call;
}

/// Inputs, then outputs, of a call that is written now or of the next one.
std::vector<NDArray> Decoder::arrays_of(const Call& call, bool next) const {
  std::vector<Extents> shapes;
  for (const std::vector<Tensor>* list : {&inputs_, &outputs_}) {
    for (const Tensor& t : *list) shapes.push_back(extents(t, call));
  }
  std::vector<NDArray> arrays;
  if (memory_) arrays = memory_->arrays(std::move(shapes), next);
  for (size_t i = 0; i < inputs_.size() + outputs_.size(); ++i) {
    const bool input = i < inputs_.size(), state = input && roles_[i] == Role::State;
    if (!memory_) {
      const Tensor& t = input ? inputs_[i] : outputs_[i - inputs_.size()];
      arrays.push_back(state   ? NDArray()
                       : input ? NDArray::zeros(std::move(shapes[i]), t.dtype())
                               : NDArray::empty(std::move(shapes[i]), t.dtype()));
    }
    if (state) arrays[i] = states_[i];
  }
  return arrays;
}

/// The arrays of the last call or of that which comes next; the tokens that it draws, and those that it is fed
/// with, have memory of their own, which takes turns.
std::vector<NDArray> Decoder::arguments(bool fed) const {
  std::vector<NDArray> all = arrays_;
  if (token_) all[inputs_.size() + *token_] = tokens_[turn_];
  if (fed) all[ids_] = tokens_[1 - turn_].view({batch_, 1});
  return all;
}

/// Writes an input of the call into an array on the CPU.
void Decoder::write(size_t i, const Call& call, const NDArray& array) const {
  const Role role = roles_[i];
  if (role == Role::Table) return blocks_->write(array);
  if (role == Role::TopK) return array.set(0, static_cast<double>(call.draw.how.top_k));
  if (role == Role::TopP) return array.set(0, call.draw.how.top_p);
  if (role == Role::Temperature) return array.set(0, call.draw.how.temperature);
  if (role == Role::Streams) {
    for (int64_t b = 0; b < batch_; ++b)
      array.at<uint64_t>({b}) =
          call.draw.numbers.empty()
              ? 0
              : stream_of(call.draw.how.seed, call.draw.numbers[static_cast<size_t>(b)]);
    return;
  }
  const int64_t columns = role == Role::Mask ? call.total : call.n;
  for (int64_t p = 0; p < array.size(); ++p) {
    const bool by_sequence = role == Role::Lengths || role == Role::Lasts || role == Role::Tokens;
    // Positions may be those of all sequences.
    const auto b = static_cast<size_t>(by_sequence ? p : p / columns);
    const int64_t column = by_sequence ? 0 : p % columns, tokens = call.tokens[b],
                  length = counts_[b] + tokens,
                  missing = columns - (role == Role::Mask ? length : tokens);
    int64_t value = 0;
    switch (role) {
      case Role::Ids: value = call.ids[static_cast<size_t>(p)]; break;
      case Role::Mask: value = column >= missing ? 1 : 0; break;
      case Role::Positions: value = column >= missing ? counts_[b] + column - missing : 0; break;
      case Role::Lengths: value = length; break;
      case Role::Lasts: value = length - 1; break;
      case Role::Tokens: value = tokens; break;
      default: break;
    }
    array.set(p, static_cast<double>(value));
  }
}

std::vector<NDArray> Decoder::inputs_of(const Lists& ids) const {
  const int64_t n = check(ids);
  check_is_one_call(n);
  const Call call = part(ids, 0, n, n);
  std::vector<NDArray> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (roles_[i] == Role::State) {
      inputs.push_back(states_[i].device().is_cpu() ? states_[i].copy() : states_[i].to_host());
      continue;
    }
    inputs.push_back(NDArray::zeros(extents(inputs_[i], call), inputs_[i].dtype()));
    if (roles_[i] == Role::Table) {
      generate::Blocks then = *blocks_;
      then.grow(rows_with(ids));
      then.write(inputs.back());
    } else if (roles_[i] != Role::Length) {
      write(i, call, inputs.back());
    }
  }
  return inputs;
}

/// Gives the inputs among the arrays of a call their elements.
void Decoder::write(const Call& call, const std::vector<NDArray>& arrays) {
  bool all_ones = true;  // the mask
  for (size_t b = 0; b < call.tokens.size(); ++b)
    all_ones &= counts_[b] + call.tokens[b] == call.total;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (roles_[i] == Role::State || roles_[i] == Role::Length) continue;
    if (!memory_) {
      write(i, call, arrays[i]);
    } else if (roles_[i] == Role::Table) {
      if (!blocks_->changed()) continue;
      write(i, call, memory_->on_cpu(arrays[i]));
      memory_->send(arrays[i]);
      blocks_->set_changed(false);
    } else if (roles_[i] != Role::Mask) {
      write(i, call, memory_->on_cpu(arrays[i]));
    } else if (!all_ones) {
      ones_ = false;
      write(i, call, memory_->on_cpu(arrays[i]));
      memory_->send(arrays[i]);
    } else if (!ones_) {
      memory_->whole(i).fill(1);
      ones_ = true;
    }
  }
  if (memory_) memory_->send_written(arrays, call.draw.fed);
}

}  // namespace heddle
