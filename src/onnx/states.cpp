// Past and present rows as states: an output that is an input with rows behind it becomes an update
// of that input.
//
//   past (batch, heads, past, depth)     state (total, batch, heads, depth)
//   present = concat(past, rows)         next = update(state, rows, total - n)
//   y = f(present)                       y = f(next), which reads the first total rows
//
// Rows are the first dimension of the state, so that those of a step are consecutive in memory.
// Where each sequence has rows of its own number, those of present end at `total`:
//   present(b, i)                        state(i + lengths(b) - total, b)
// Where these are in blocks (ops/paged.h), states have blocks and their slots in the place of rows and sequences:
//   present(b, i)                        state(table(b, r / slots), r % slots), r = i + lengths(b) - total
#include <algorithm>
#include <optional>

#include "dag/replace_reads.h"
#include "heddle/dag/instance.h"
#include "heddle/ir/simplify.h"
#include "heddle/ops/paged.h"
#include "heddle/support/error.h"
#include "ir/size_line.h"
#include "ir/sizes.h"
#include "onnx/file/graph.h"

namespace heddle::onnx {
namespace {

/// An output that repeats an input.
struct Grown {
  size_t input = 0, output = 0;
  Tensor present;  ///< the concat
  Tensor past;     ///< what it reads: the input, or the input in another type
  Tensor rows;     ///< what it appends
  size_t axis = 0;
};

bool is_own(const Operation& op, const Load& load, size_t but) {
  if (load.indices.size() != op.axes().size()) return false;
  for (size_t d = 0; d < op.axes().size(); ++d) {
    if (d != but && !equal(load.indices[d], op.axes()[d])) return false;
  }
  return true;
}
constexpr size_t kNone = SIZE_MAX;

/// What `t` copies or converts, element by element; `t` itself where it does something else.
Tensor copied_by(Tensor t) {
  while (!t.op()->is_placeholder() && !t.op()->is_reduction() && t.op()->num_outputs() == 1) {
    const Expr& body = t.op()->bodies()[0];
    const Cast* cast = body.as<Cast>();
    const Load* load = cast ? cast->value.as<Load>() : body.as<Load>();
    if (!load || !is_own(*t.op(), *load, kNone)) break;
    t = tensor_of(load->buffer);
  }
  return t;
}

/// The parts of a concat of two along one axis.
std::optional<Grown> as_concat(const Tensor& t) {
  const Operation& op = *t.op();
  if (op.is_placeholder() || op.is_reduction() || op.num_outputs() != 1) return std::nullopt;
  const Select* choice = op.bodies()[0].as<Select>();
  const Load* past = choice ? choice->on_true.as<Load>() : nullptr;
  const Load* rows = choice ? choice->on_false.as<Load>() : nullptr;
  if (!past || !rows || !is_own(op, *past, kNone)) return std::nullopt;
  for (size_t k = 0; k < op.axes().size(); ++k) {
    const Expr axis = op.axes()[k], begin = past->buffer->shape[k];
    if (is_own(op, *rows, k) && equal(simplify(axis - rows->indices[k]), begin) &&
        equal(simplify(choice->condition), simplify(axis < begin)))
      return Grown{0, 0, t, tensor_of(past->buffer), tensor_of(rows->buffer), k};
  }
  return std::nullopt;
}

std::vector<Grown> find_grown(const OnnxModel& model) {
  std::vector<Grown> found;
  for (size_t o = 0; o < model.outputs.size(); ++o) {
    std::optional<Grown> grown = as_concat(copied_by(model.outputs[o]));
    if (!grown) continue;
    const Tensor source = copied_by(grown->past);
    for (size_t i = 0; i < model.inputs.size(); ++i) {
      if (!model.inputs[i].same_as(source)) continue;
      grown->input = i;
      grown->output = o;
      found.push_back(*grown);
    }
  }
  return found;
}

/// `list` with entry `axis` first.
template <class T>
std::vector<T> moved_first(std::vector<T> list, size_t axis) {
  std::rotate(list.begin(), list.begin() + static_cast<long>(axis),
              list.begin() + static_cast<long>(axis) + 1);
  return list;
}

class StateMaker {
 public:
  StateMaker(OnnxModel model, const OnnxOptions& options)
      : model_(std::move(model)), options_(options), grown_(find_grown(model_)), past_("past") {}

  OnnxModel run() {
    find_sizes();
    replace();
    set_total();
    return std::move(model_);
  }

 private:
  /// The dimensions of past, rows and both.
  void find_sizes() {
    if (grown_.empty())
      throw_user_error("no output is an input with rows behind it, so it has no states", {},
                       "leave states out, or export the model with past and present rows");
    for (const Grown& g : grown_) {
      const Expr& past = g.past.shape()[g.axis];
      const VarNode* size = past.as<VarNode>();
      if (size == nullptr || !size->size)
        throw_user_error("the rows of '" + model_.input_names[g.input] +
                             "' are no range of sizes, so it cannot be a state",
                         {}, "give their dimension one: past=1..960");
      if (&g == &grown_[0]) {
        past_ = Var::from(past);
        rows_ = g.rows.shape()[g.axis];
      }
      if (!equal(past, past_) || !equal(g.rows.shape()[g.axis], rows_))
        throw_user_error("'" + model_.input_names[g.input] + "' has other rows than '" +
                         model_.input_names[grown_[0].input] + "', and all states grow alike");
    }
    std::string name = "total";
    for (const auto& [sum, parts] : options_.sums) {
      if (std::find(parts.begin(), parts.end(), past_->name) != parts.end()) name = sum;
    }
    total_.emplace(dim(name, 1, past_->size->hi + largest_extent(rows_)));
    check_blocks();
    if (options_.each_sequence) find_sequences();
    make_states();
    if (options_.each_sequence) find_places();
  }

  /// A state for each past, with the rows first, or in blocks.
  void make_states() {
    for (const Grown& g : grown_) {
      const Tensor& input = model_.inputs[g.input];
      Shape shape = moved_first(Shape(g.past.shape()), g.axis);
      shape[0] = total_->hi();
      if (has_blocks()) {
        const RowBlocks& blocks = options_.blocks;
        const int64_t sequences = *as_int(shape[1]);
        // Their numbers are i32 in the table.
        if (blocks.count == 0 && blocks_of_sequence() > INT32_MAX / sequences)
          throw_user_error(std::to_string(sequences) + " sequences of " +
                               std::to_string(blocks_of_sequence()) +
                               " blocks have more of them than a table can name",
                           {}, "give blocks more rows");
        shape[0] = blocks.count > 0 ? blocks.count : blocks_of_sequence() * sequences;
        shape[1] = blocks.rows;
      }
      states_.push_back(placeholder(shape, g.past.dtype(), input.name(), input.op()->where()));
    }
  }

  void check_blocks() const {
    const RowBlocks& blocks = options_.blocks;
    if (blocks.rows < 0 || blocks.count < 0 || (blocks.rows == 0 && blocks.count > 0))
      throw_user_error(std::to_string(blocks.count) + " blocks of " + std::to_string(blocks.rows) +
                           " rows are no memory for states",
                       {}, "give blocks a row at least, and their number or 0");
    if (blocks.rows > total_->hi())
      throw_user_error("blocks of " + std::to_string(blocks.rows) +
                           " rows are larger than a sequence of " + std::to_string(total_->hi()),
                       {}, "give blocks at most as many rows as the capacity");
    if (blocks.count > INT32_MAX)
      throw_user_error(
          std::to_string(blocks.count) + " blocks are more than a table can name", {},
          "give at most " + std::to_string(INT32_MAX) + ", or 0 for as many as sequences need");
    if (has_blocks() && !options_.each_sequence)
      throw_user_error("blocks are for sequences with rows of their own number", {},
                       "set OnnxOptions::each_sequence");
  }
  bool has_blocks() const { return options_.blocks.rows > 0; }
  int64_t blocks_of_sequence() const {
    return (total_->hi() + options_.blocks.rows - 1) / options_.blocks.rows;
  }

  /// The inputs that say the lengths of the sequences and where their rows are.
  void find_sequences() {
    const Grown& first = grown_[0];
    const Tensor& input = model_.inputs[first.input];
    const int64_t* batch = first.axis > 0 ? as_int(first.past.shape()[0]) : nullptr;
    for (const Grown& g : grown_) {
      if (batch && g.axis > 0 && is_const(g.past.shape()[0], *batch)) continue;
      throw_user_error(
          "'" + model_.input_names[g.input] +
              "' has no constant batch as its first dimension, so its sequences have no "
              "lengths of their own",
          {}, "leave each_sequence out, or give the batch an extent");
    }
    const int64_t n = *batch;
    model_.lengths = placeholder({n}, i64, "lengths", input.op()->where());
    model_.tokens = placeholder({n}, i64, "tokens", input.op()->where());
    if (!has_blocks()) return;
    for (const Grown& g : grown_) {
      if (g.past.rank() == 4 && g.axis == 2) continue;
      throw_user_error(
          "'" + model_.input_names[g.input] +
              "' is no past of (batch, heads, rows, depth), so its rows have no blocks",
          {}, "leave blocks out");
    }
    model_.table = placeholder({n, blocks_of_sequence()}, i32, "table", input.op()->where());
  }

  /// Where the rows of a call go.
  void find_places() {
    const Where where = model_.lengths.op()->where();
    const int64_t n = model_.lengths.extent(0);
    const auto is_new = [&](const Expr& b, const Expr& j) { return j >= rows_ - model_.tokens(b); };
    if (has_blocks()) {
      const Tensor before = compute(
          {n}, [&](Axis b) { return model_.lengths(b) - rows_; }, "before", "update", where);
      const Tensor all = ops::paged_places(states_[0], model_.table, before, rows_, where);
      places_ = compute(
          {rows_, n},
          [&](Axis j, Axis b) { return select(is_new(b, j), all(b, j), Expr(int64_t{-1})); },
          "places", "update", where);
      return;
    }
    places_ = compute(
        {rows_, n},
        [&](Axis j, Axis b) {
          const Expr row = model_.lengths(b) - rows_ + j;
          return select(is_new(b, j) && row >= 0, row * n + b, Expr(int64_t{-1}));
        },
        "places", "update", where);
  }

  /// The row of the state of `g` that has row `at` of what the model reads.
  std::vector<Expr> row_of(const Grown& g, const std::vector<Expr>& at) const {
    std::vector<Expr> row = at;
    if (places_) {
      const Expr there = at[g.axis] + model_.lengths(at[0]) - (past_ + rows_);
      row[g.axis] = max(min(there, Expr(total_->hi() - 1)), Expr(0));
    }
    row = moved_first(row, g.axis);
    if (has_blocks()) {
      const ops::PagedRow place = ops::paged_row(states_[0], model_.table, at[0], row[0]);
      row[0] = place.block;
      row[1] = place.slot;
    }
    return row;
  }

  void replace() {
    const ComputeDag dag(model_.outputs);
    dag::ReplacedReads graph(dag);
    next_.resize(grown_.size());
    for (size_t s = 0; s < grown_.size(); ++s) {
      const Grown& g = grown_[s];
      const Tensor input = model_.inputs[g.input];
      const auto read = [&, s](const std::vector<Expr>& at) {
        return states_[s].at(row_of(grown_[s], at));
      };
      if (!input.same_as(g.past)) {
        graph.replace(input.op(), [read, input](const std::vector<Expr>& at) {
          return cast(input.dtype(), read(at));
        });
      }
      graph.replace(g.past.op(), read);
      graph.replace(g.present.op(), [&, s](const std::vector<Expr>& at) {
        return next_of(s, graph).at(row_of(grown_[s], at));
      });
    }
    graph.run();
    std::vector<Tensor> outputs;
    std::vector<std::string> names;
    std::vector<int> places;  // of the outputs that stay
    for (size_t o = 0; o < model_.outputs.size(); ++o) {
      places.push_back(static_cast<int>(outputs.size()));
      if (std::any_of(grown_.begin(), grown_.end(), [&](const Grown& g) { return g.output == o; }))
        continue;
      outputs.push_back(graph.now(model_.outputs[o]));
      names.push_back(model_.output_names[o]);
    }
    for (size_t s = 0; s < grown_.size(); ++s) {
      model_.updates.push_back({states_[s], next_of(s, graph)});
      model_.inputs[grown_[s].input] = states_[s];
    }
    for (OnnxOpenOutput& open : model_.open_outputs) {
      open.output = places[static_cast<size_t>(open.output)];
      open.count = places[static_cast<size_t>(open.count)];
    }
    model_.outputs = std::move(outputs);
    model_.output_names = std::move(names);
  }

  /// The state with the rows of the call.
  const Tensor& next_of(size_t s, const dag::ReplacedReads& graph) {
    if (next_[s]) return next_[s];
    const Grown& g = grown_[s];
    const Tensor rows = graph.now(g.rows);
    const auto axis = static_cast<long>(g.axis);
    const Tensor moved = compute(
        moved_first(Shape(rows.shape()), g.axis),
        [&](const std::vector<Axis>& at) {
          std::vector<Expr> own(at.begin(), at.end());
          std::rotate(own.begin(), own.begin() + 1, own.begin() + axis + 1);
          return rows.at(own);
        },
        states_[s].name() + ".rows", "transpose", rows.op()->where());
    next_[s] = places_ ? update(states_[s], moved, places_, rows.op()->where())
                       : update(states_[s], moved, past_.expr(), rows.op()->where());
    return next_[s];
  }

  /// The declaration over the length of all rows, in the place of that of the past ones.
  void set_total() {
    std::vector<Tensor> all = model_.outputs;
    for (const StateUpdate& u : model_.updates) all.push_back(u.next);
    const Instance over = with_size(all, past_, Expr(*total_) - rows_);
    const auto is_read = [&](const Tensor& t) {
      return std::any_of(over.tensors.begin(), over.tensors.end(),
                         [&](const auto& pair) { return pair.first.same_as(t); });
    };
    model_.outputs = over.of(model_.outputs);
    for (StateUpdate& u : model_.updates) u = {over.of(u.state), over.of(u.next)};
    std::erase_if(model_.constants, [&](const Tensor& t) { return !is_read(t); });
    model_.constants = over.of(model_.constants);
    for (size_t i = model_.inputs.size(); i-- > 0;) {
      if (is_read(model_.inputs[i])) {
        model_.inputs[i] = over.of(model_.inputs[i]);
      } else {
        model_.unread.push_back(model_.input_names[i]);
        model_.inputs.erase(model_.inputs.begin() + static_cast<long>(i));
        model_.input_names.erase(model_.input_names.begin() + static_cast<long>(i));
      }
    }
    for (Dim& d : model_.dims) {
      if (d.variable().same_as(past_)) d = *total_;
    }
    for (Tensor* t : {&model_.lengths, &model_.tokens, &model_.table}) {
      if (!*t) continue;
      *t = over.of(*t);
      model_.inputs.push_back(*t);
      model_.input_names.push_back(t->name());
    }
    add_length();
  }

  /// Where no shape of an input gives the length, one that nothing reads does.
  void add_length() {
    for (const Tensor& t : model_.inputs) {
      for (const Expr& e : t.shape()) {
        const std::optional<SizeLine> line = as_size_line(e);
        if (line && line->size.same_as(total_->variable())) return;
      }
    }
    model_.inputs.push_back(placeholder({*total_}, u8, total_->name(), Where{}));
    model_.input_names.push_back(total_->name());
  }

  OnnxModel model_;
  const OnnxOptions& options_;
  const std::vector<Grown> grown_;
  Var past_;
  Expr rows_;
  std::optional<Dim> total_;
  Tensor places_;  ///< of each_sequence, else undefined
  std::vector<Tensor> states_, next_;
};

}  // namespace

OnnxModel with_states(OnnxModel model, const OnnxOptions& options) {
  return StateMaker(std::move(model), options).run();
}

}  // namespace heddle::onnx
