#include "heddle/generate/decoder.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "dag/few_bits.h"
#include "dag/take_row.h"
#include "generate/blocks.h"
#include "generate/call_memory.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

/// The size in an extent; undefined where it is constant.
Var size_in(const Expr& e) {
  const VarNode* v = e.as<VarNode>();
  return v && v->size ? Var::from(e) : Var();
}

int64_t bytes_of(const Tensor& t) { return t.size() * t.dtype().bytes(); }

/// The bytes of the constants that a step reads. Of a table from which rows are looked up alone, these
/// are next to nothing.
double bytes_of_weights(const OnnxModel& model) {
  const ComputeDag dag(model.outputs);
  double bytes = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    if (!op.is_constant()) continue;
    const bool looked_up = std::ranges::all_of(dag.info(s).consumers, [&](int r) {
      return dag::looks_up(dag.stage(r), op.output_buffer(0));
    });
    if (!looked_up) bytes += static_cast<double>(bytes_of(op.output(0)));
  }
  return bytes;
}

[[noreturn]] void fail(const std::string& message, const std::string& help = {}) {
  throw_user_error("the model is no decoder: " + message, {}, help);
}

/// The place of a name, which the model must have.
size_t place_of(const std::vector<std::string>& list, const std::string& name) {
  const auto it = std::find(list.begin(), list.end(), name);
  if (it == list.end()) fail("it has no '" + name + "'", "name it: DecoderNames");
  return static_cast<size_t>(it - list.begin());
}

}  // namespace

OnnxModel last_logits(OnnxModel model, const std::string& logits) {
  Tensor& all = model.outputs[place_of(model.output_names, logits)];
  if (all.rank() != 3) fail("'" + logits + "' has not the shape (batch, n, vocabulary)");
  std::vector<Tensor> results = model.outputs;
  for (const StateUpdate& u : model.updates) results.push_back(u.next);
  const Expr last = simplify(all.shape()[1] - 1);
  all = dag::take_row(ComputeDag(results), all, 1, last);
  return model;
}

OnnxModel with_draws(OnnxModel model, const DecoderNames& names, bool limits) {
  const Tensor& ids = model.inputs[place_of(model.input_names, names.ids)];
  const Tensor& logits = model.outputs[place_of(model.output_names, names.logits)];
  if (logits.rank() != 2)
    fail("'" + names.logits + "' has not the shape (batch, vocabulary)", "call last_logits first");
  const Tensor streams = placeholder({logits.shape()[0]}, u64, names.streams),
               temperature = placeholder({1}, f64, names.temperature);
  DrawLimits given;
  if (limits) given = {placeholder({1}, i64, names.top_k), placeholder({1}, f64, names.top_p)};
  Tensor token = draw(logits, streams, temperature, given);
  if (const DataType type = ids.dtype(); type != i64)
    token = compute(token.shape(), [&](Axis b) { return cast(type, token(b)); }, "token");
  model.inputs.insert(model.inputs.end(), {streams, temperature});
  model.input_names.insert(model.input_names.end(), {names.streams, names.temperature});
  if (limits) {
    model.inputs.insert(model.inputs.end(), {given.top_k, given.top_p});
    model.input_names.insert(model.input_names.end(), {names.top_k, names.top_p});
  }
  model.outputs.push_back(token);
  model.output_names.push_back(names.token);
  return model;
}

Decoder::Decoder(const OnnxModel& model, const Network& network, const DecoderNames& names)
    : inputs_(model.inputs), outputs_(model.outputs) {
  find_sizes(model, names);
  device_ = network.tasks()[0].tmpl.target().is_cuda() ? Device::cuda() : Device::cpu();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    roles_.push_back(role_of(model, i, names));
    states_.emplace_back();
    if (roles_[i] != Role::State) continue;
    const Tensor& t = inputs_[i];
    states_[i] = NDArray::zeros(t.extents(), t.dtype(), device_);
    // Of each sequence, which may be less than one of a block that all share.
    const double rows =
        model.table ? static_cast<double>(t.extent(0) * t.extent(1)) / static_cast<double>(batch_)
                    : static_cast<double>(t.extent(0));
    row_bytes_ += static_cast<double>(bytes_of(t)) / rows;
  }
  if (model.table) find_blocks(model);
  weight_bytes_ = bytes_of_weights(model);
  masked_ = find_mask(model.own_positions);
  last_ = NDArray::empty({batch_, vocabulary_}, f32, device_);
  for (NDArray& tokens : tokens_)
    if (token_) tokens = NDArray::zeros({batch_}, outputs_[*token_].dtype(), device_);
  if (device_.is_cuda()) find_memory();
  reset();
  kernel_ = network.build(model.args());
}

void Decoder::find_sizes(const OnnxModel& model, const DecoderNames& names) {
  if (model.updates.empty())
    fail("it has no states", "import it with OnnxOptions::states, on the command line --states");
  ids_ = place_of(model.input_names, names.ids);
  const Tensor& ids = inputs_[ids_];
  logits_ = place_of(model.output_names, names.logits);
  const auto token = std::ranges::find(model.output_names, names.token);
  if (token != model.output_names.end())
    token_ = static_cast<size_t>(token - model.output_names.begin());
  const Tensor& logits = outputs_[logits_];
  if (ids.rank() != 2 || !ids.dtype().is_integral() || !as_int(ids.shape()[0]))
    fail("'" + names.ids + "' has not the shape (batch, n) with a constant batch");
  if (logits.rank() < 2 || logits.rank() > 3 || logits.dtype() != f32 ||
      !as_int(logits.shape().back()))
    fail("'" + names.logits + "' is no f32 of the shape (batch, n, vocabulary)");
  batch_ = ids.extent(0);
  vocabulary_ = logits.extent(-1);
  rows_ = size_in(ids.shape()[1]);
  most_ = rows_.get() ? rows_->size->hi : ids.extent(1);
  fewest_ = rows_.get() ? rows_->size->lo : most_;
  for (const Dim& d : model.dims) {
    if (rows_.get() && d.variable().same_as(rows_)) continue;
    if (total_.get()) fail("it has other sizes than those of its tokens and its past");
    total_ = d.variable();
  }
  if (!total_.get()) fail("its past has no range of sizes");
  capacity_ = total_->size->hi;
}

void Decoder::find_blocks(const OnnxModel& model) {
  const Tensor& state = model.updates[0].state;
  blocks_ = std::make_shared<generate::Blocks>(state.extent(0), state.extent(1), batch_,
                                               model.table.extent(1));
}

Decoder::Role Decoder::role_of(const OnnxModel& model, size_t i, const DecoderNames& names) const {
  const Tensor& t = inputs_[i];
  for (const StateUpdate& u : model.updates) {
    if (u.state.same_as(t)) return Role::State;
  }
  const std::string& name = model.input_names[i];
  if (name == names.ids) return Role::Ids;
  if (name == names.mask) return Role::Mask;
  if (name == names.positions) return Role::Positions;
  if (name == names.lasts) return Role::Lasts;
  if (name == names.streams) return Role::Streams;
  if (name == names.temperature) return Role::Temperature;
  if (name == names.top_k) return Role::TopK;
  if (name == names.top_p) return Role::TopP;
  if (model.lengths && t.same_as(model.lengths)) return Role::Lengths;
  if (model.tokens && t.same_as(model.tokens)) return Role::Tokens;
  if (model.table && t.same_as(model.table)) return Role::Table;
  if (t.rank() == 1 && t.dtype() == u8 && equal(t.shape()[0], total_)) return Role::Length;
  fail("nothing is known of its input '" + name + "'",
       "its inputs are tokens, a mask, positions and states");
}

bool Decoder::find_mask(bool own_positions) const {
  const auto has = [&](Role role) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (roles_[i] == role) return is_const(inputs_[i].shape()[0], batch_);
    }
    return false;
  };
  return (has(Role::Mask) || has(Role::Lasts)) && (own_positions || has(Role::Positions)) &&
         has(Role::Lengths);
}

bool Decoder::draws(const Sampling& how) const {
  const bool limits = std::ranges::count(roles_, Role::TopK) > 0;
  return token_ && (limits || how.temperature == 0 || (how.top_k == 0 && how.top_p == 1));
}

NDArray Decoder::step(std::span<const int64_t> ids) {
  const int64_t n = std::ssize(ids) / batch_;
  if (n == 0 || n * batch_ != std::ssize(ids))
    throw_user_error(
        std::to_string(ids.size()) + " tokens are given for a batch of " + std::to_string(batch_),
        {}, "give as many for each sequence, and at least one");
  Lists lists;
  for (int64_t b = 0; b < batch_; ++b) {
    const auto of_sequence = ids.subspan(static_cast<size_t>(b * n), static_cast<size_t>(n));
    lists.emplace_back(of_sequence.begin(), of_sequence.end());
  }
  return step_each(lists);
}

double Decoder::bytes_of_step(int64_t length) const {
  return weight_bytes_ + row_bytes_ * static_cast<double>(length + 1);
}

}  // namespace heddle
