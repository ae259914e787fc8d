// The primitives. Each allots the ids of its results and passes one Step to the recorder.
#include "heddle/dag/attention.h"
#include "heddle/schedule/schedule.h"
#include "heddle/support/error.h"

namespace heddle {

void StepRecorder::init_axes(const ComputeDag& dag) {
  stage_axes_.clear();
  next_axis_ = 0;
  for (int i = 0; i < dag.size(); ++i) {
    StageAxes axes;
    axes.name = dag.stage(i).name();
    const Operation& op = dag.stage(i);
    size_t rank = op.is_placeholder() ? op.output_buffer(0)->shape.size() : op.axes().size();
    for (size_t a = 0; a < rank; ++a) axes.spatial.push_back(next_axis_++);
    for (size_t a = 0; a < dag.stage(i).reduce_axes().size(); ++a)
      axes.reduce.push_back(next_axis_++);
    stage_axes_.push_back(std::move(axes));
  }
}

StageRef StepRecorder::operator[](const Tensor& t) {
  int id = recorded_dag().index_of(t.op());
  if (id < 0) throw_user_error("tensor '" + t.name() + "' is not part of this schedule's program");
  return StageRef(this, id);
}

StageRef StepRecorder::stage(int id) {
  HEDDLE_ICHECK(id >= 0 && id < static_cast<int>(stage_axes_.size()), "no such stage");
  return StageRef(this, id);
}

namespace {
Loop pick(const std::vector<int>& axes, int i, const std::string& stage, const char* what) {
  int n = static_cast<int>(axes.size());
  int at = i < 0 ? i + n : i;
  if (at < 0 || at >= n) {
    throw_user_error("stage '" + stage + "' has no " + what + " axis " + std::to_string(i) +
                     ": it has " + std::to_string(n));
  }
  return Loop{axes[at]};
}
template <class Axes>
void put(std::vector<Axes>& list, int id, Axes axes) {
  if (id >= static_cast<int>(list.size())) list.resize(static_cast<size_t>(id) + 1);
  list[static_cast<size_t>(id)] = std::move(axes);
}
std::vector<int> ids(const std::vector<Loop>& loops) {
  std::vector<int> out;
  for (Loop l : loops) out.push_back(l.id);
  return out;
}
}  // namespace

Loop StageRef::axis(int i) const {
  const auto& a = recorder_->stage_axes_[id_];
  return pick(a.spatial, i, a.name, "spatial");
}
Loop StageRef::reduce_axis(int i) const {
  const auto& a = recorder_->stage_axes_[id_];
  return pick(a.reduce, i, a.name, "reduce");
}
int StageRef::num_axes() const {
  return static_cast<int>(recorder_->stage_axes_[id_].spatial.size());
}
int StageRef::num_reduce_axes() const {
  return static_cast<int>(recorder_->stage_axes_[id_].reduce.size());
}

std::vector<Loop> StageRef::all_axes() const {
  std::vector<Loop> out;
  for (int a : recorder_->stage_axes_[id_].spatial) out.push_back(Loop{a});
  return out;
}
std::vector<Loop> StageRef::all_reduce_axes() const {
  std::vector<Loop> out;
  for (int a : recorder_->stage_axes_[id_].reduce) out.push_back(Loop{a});
  return out;
}

std::array<Loop, 2> StageRef::split(Loop i, Param factor, TailStrategy tail, Where at) {
  int o = recorder_->next_axis_++, in = recorder_->next_axis_++;
  std::vector<Param> params = {factor};
  if (tail != TailStrategy::Shorten) params.push_back(Param(static_cast<int>(tail)));
  recorder_->record({StepKind::Split, id_, {i.id}, std::move(params), {o, in}, at});
  return {Loop{o}, Loop{in}};
}

Loop StageRef::fuse(Loop a, Loop b, Where at) {
  int f = recorder_->next_axis_++;
  recorder_->record({StepKind::Fuse, id_, {a.id, b.id}, {}, {f}, at});
  return Loop{f};
}

Loop StageRef::fuse(const std::vector<Loop>& loops, Where at) {
  if (loops.empty()) throw_user_error("cannot fuse no loops at all", at);
  Loop f = loops[0];
  for (size_t i = 1; i < loops.size(); ++i) f = fuse(f, loops[i], at);
  return f;
}

StageRef& StageRef::reorder(const std::vector<Loop>& order, Where at) {
  recorder_->record({StepKind::Reorder, id_, ids(order), {}, {}, at});
  return *this;
}
StageRef& StageRef::vectorize(Loop i, Where at) {
  recorder_->record({StepKind::Vectorize, id_, {i.id}, {}, {}, at});
  return *this;
}
StageRef& StageRef::scatter_rows(StageRef places, Param rows, Where at) {
  recorder_->record({StepKind::ScatterRows, id_, {}, {Param(places.id()), rows}, {}, at});
  return *this;
}
StageRef& StageRef::unroll(Loop i, Where at) {
  recorder_->record({StepKind::Unroll, id_, {i.id}, {}, {}, at});
  return *this;
}
StageRef& StageRef::parallel(Loop i, Where at) {
  recorder_->record({StepKind::Parallel, id_, {i.id}, {}, {}, at});
  return *this;
}
StageRef& StageRef::software_pipeline(Loop i, Where at) {
  recorder_->record({StepKind::SoftwarePipeline, id_, {i.id}, {}, {}, at});
  return *this;
}
void StageRef::check_owner(const char* step, StageRef consumer, Loop loop, Where at) const {
  int owner = recorder_->stage_of_axis(loop.id);
  if (owner >= 0 && owner != consumer.id()) {
    throw_user_error(std::string("cannot apply ") + step + ": the loop belongs to stage '" +
                         recorder_->stage_axes_[owner].name + "', not to '" +
                         recorder_->stage_axes_[consumer.id()].name + "'",
                     at, "name a loop of the consumer");
  }
}
StageRef& StageRef::compute_at(StageRef consumer, Loop loop, Where at) {
  check_owner("compute_at", consumer, loop, at);
  recorder_->record({StepKind::ComputeAt, id_, {loop.id}, {}, {}, at});
  return *this;
}
StageRef& StageRef::store_at(StageRef host, Loop loop, Where at) {
  check_owner("store_at", host, loop, at);
  recorder_->record({StepKind::StoreAt, id_, {loop.id}, {}, {}, at});
  return *this;
}
StageRef& StageRef::compute_inline(Where at) {
  recorder_->record({StepKind::Inline, id_, {}, {}, {}, at});
  return *this;
}
StageRef& StageRef::widen(DataType to, Where at) {
  recorder_->record(
      {StepKind::Widen, id_, {}, {Param(static_cast<int>(to.code)), Param(to.bits)}, {}, at});
  return *this;
}
StageRef& StageRef::store_nontemporal(Where at) {
  recorder_->record({StepKind::NonTemporal, id_, {}, {}, {}, at});
  return *this;
}
StageRef& StageRef::expect(Instruction what, Where at) {
  recorder_->record({StepKind::Expect, id_, {}, {Param(static_cast<int>(what))}, {}, at});
  return *this;
}
StageRef& StageRef::prefetch(StageRef producer, int dim, Param distance, Where at) {
  recorder_->record(
      {StepKind::Prefetch, id_, {}, {Param(producer.id()), Param(dim), distance}, {}, at});
  return *this;
}

StageRef& StageRef::bind(Loop i, LoopKind index, Where at) {
  recorder_->record({StepKind::Bind, id_, {i.id}, {Param(index.number())}, {}, at});
  return *this;
}
StageRef& StageRef::set_scope(Scope scope, Where at) {
  recorder_->record({StepKind::SetScope, id_, {}, {Param(static_cast<int>(scope))}, {}, at});
  return *this;
}
StageRef& StageRef::storage_pad(Param elements, Where at) {
  recorder_->record({StepKind::StoragePad, id_, {}, {elements}, {}, at});
  return *this;
}
StageRef& StageRef::multi_buffer(Param copies, Where at) {
  recorder_->record({StepKind::MultiBuffer, id_, {}, {copies}, {}, at});
  return *this;
}
StageRef& StageRef::tensorize(Loop i, const std::string& instruction, Where at) {
  recorder_->record({StepKind::Tensorize, id_, {i.id}, {}, {}, at, instruction});
  return *this;
}
StageRef& StageRef::by_last_block(Where at) {
  recorder_->record({StepKind::LastBlock, id_, {}, {}, {}, at});
  return *this;
}

StageRef StageRef::cache_write(Where at) {
  return move_out({StepKind::CacheWrite, id_, {}, {}, {}, at}, ".local");
}

StageRef StageRef::pad(const std::vector<Padding>& axes, Where at) {
  Step step{StepKind::Pad, id_, {}, {}, {}, at};
  for (const Padding& p : axes) {
    step.axes.push_back(p.axis.id);
    step.params.insert(step.params.end(), {p.a, p.b, p.c});
  }
  return move_out(std::move(step), ".pad");
}

StageRef::Product StageRef::as_product(const ProductView& view, Where at) {
  Step step{StepKind::AsProduct, id_, {}, {}, {}, at};
  int64_t role = 0;
  for (const auto* list : {&view.batch, &view.rows, &view.cols, &view.depth}) {
    for (const Digit& d : *list) {
      step.axes.push_back(d.axis.id);
      step.params.insert(step.params.end(), {Param(role), Param(d.divisor), Param(d.extent)});
    }
    ++role;
  }
  for (const auto* list : {&view.row_multiple, &view.col_multiple, &view.depth_multiple})
    step.params.insert(step.params.end(), list->begin(), list->end());
  for (bool along : {view.rows_along_depth, view.cols_along_depth})
    step.params.push_back(Param(along ? 1 : 0));
  const std::string name = recorder_->stage_axes_[id_].name;
  int id = static_cast<int>(recorder_->stage_axes_.size());
  std::vector<StepRecorder::StageAxes> made;
  for (const char* suffix : {".product", ".rows", ".columns"}) {
    StepRecorder::StageAxes axes;
    axes.name = name + suffix;
    step.results.push_back(id + static_cast<int>(made.size()));
    for (size_t i = 0; i < view.batch.size() + 2; ++i)
      axes.spatial.push_back(recorder_->next_axis_++);
    if (made.empty()) axes.reduce.push_back(recorder_->next_axis_++);
    for (const auto* list : {&axes.spatial, &axes.reduce})
      step.results.insert(step.results.end(), list->begin(), list->end());
    made.push_back(std::move(axes));
  }
  recorder_->record(std::move(step));
  recorder_->stage_axes_[id_].reduce.clear();
  for (size_t i = 0; i < made.size(); ++i)
    put(recorder_->stage_axes_, id + static_cast<int>(i), std::move(made[i]));
  return {StageRef(recorder_, id), StageRef(recorder_, id + 1), StageRef(recorder_, id + 2)};
}

StageRef::OnlineStages StageRef::online_softmax(const std::array<Param, 3>& rows, Param keys,
                                                Where at) {
  Step step{StepKind::OnlineSoftmax, id_, {}, {rows[0], rows[1], rows[2], keys}, {}, at};
  return record_online(std::move(step), false).of_part;
}

StageRef::OnlineParts StageRef::online_softmax_in_parts(const std::array<Param, 3>& rows,
                                                        Param keys, Param parts, Where at) {
  Step step{StepKind::OnlineSoftmax, id_, {}, {rows[0], rows[1], rows[2], keys, parts}, {}, at};
  return record_online(std::move(step), true);
}

StageRef::OnlineParts StageRef::record_online(Step step, bool in_parts) {
  const std::optional<Attention> chain = find_attention(recorder_->recorded_dag(), id_);
  const size_t whole = chain ? chain->batch.size() : 0;
  if (chain && chain->other_rows) {
    // The longest axis is another one at other sizes.
    if (!in_parts) step.params.emplace_back(0);
    step.params.emplace_back(chain->row);
  }
  const std::string name = recorder_->stage_axes_[id_].name;
  const int first = static_cast<int>(recorder_->stage_axes_.size());
  std::vector<StepRecorder::StageAxes> made;
  const auto add = [&](const char* suffix, size_t batch, size_t own, size_t reduce) {
    StepRecorder::StageAxes axes;
    axes.name = name + suffix;
    const int id = first + static_cast<int>(made.size());
    step.results.push_back(id);
    for (size_t i = 0; i < batch + own; ++i) axes.spatial.push_back(recorder_->next_axis_++);
    for (size_t i = 0; i < reduce; ++i) axes.reduce.push_back(recorder_->next_axis_++);
    for (const auto* list : {&axes.spatial, &axes.reduce})
      step.results.insert(step.results.end(), list->begin(), list->end());
    made.push_back(std::move(axes));
    return StageRef(recorder_, id);
  };
  const size_t n = whole + (in_parts ? 1 : 0);
  // The results are in the order of the declaration.
  const OnlineStages of_part{
      add(".queries", n, 2, 0),  add(".keys", n, 2, 0),     add(".values", n, 2, 0),
      add(".products", n, 2, 1), add(".scores", n, 2, 0),   add(".tile_max", n, 2, 1),
      add(".highest", n, 1, 1),  add(".powers", n, 2, 0),   add(".weights", n, 2, 0),
      add(".partial", n, 2, 2),  add(".weighted", n, 2, 2), add(".total", n, 1, 1)};
  const StageRef none(recorder_, -1);
  OnlineParts out{of_part, none, none, none, none};
  if (in_parts)
    out = {of_part, add(".part", n, 2, 0), add(".top", whole, 1, 1),
           add(".parts_total", whole, 1, 1), add(".sum", whole, 2, 1)};
  recorder_->record(std::move(step));
  recorder_->stage_axes_[id_].reduce.clear();
  if (chain && chain->total >= 0) recorder_->stage_axes_[chain->total].reduce.clear();
  for (size_t i = 0; i < made.size(); ++i)
    put(recorder_->stage_axes_, first + static_cast<int>(i), std::move(made[i]));
  return out;
}

// Moves the computation of the stage to a new stage with the same axes.
StageRef StageRef::move_out(Step step, const char* suffix) {
  StepRecorder::StageAxes axes = recorder_->stage_axes_[id_];
  axes.name += suffix;
  int id = static_cast<int>(recorder_->stage_axes_.size());
  step.results.push_back(id);
  for (auto* list : {&axes.spatial, &axes.reduce}) {
    for (int& a : *list) step.results.push_back(a = recorder_->next_axis_++);
  }
  // The step is recorded first: a step that cannot apply throws, and the axes must then be
  // unchanged.
  recorder_->record(std::move(step));
  recorder_->stage_axes_[id_].reduce.clear();
  put(recorder_->stage_axes_, id, std::move(axes));
  return StageRef(recorder_, id);
}

StageRef StageRef::cache_read(const std::vector<StageRef>& readers, Where at) {
  Step step{StepKind::CacheRead, id_, {}, {}, {}, at};
  for (const StageRef& r : readers) step.params.push_back(Param(r.id()));
  return copied(std::move(step));
}

StageRef StageRef::cache_read(const StageRef& reader, Loop along, Where at) {
  return copied(Step{StepKind::CacheRead, id_, {along.id}, {Param(reader.id())}, {}, at});
}

StageRef StageRef::copied(Step step) {
  StepRecorder::StageAxes axes;
  axes.name = recorder_->stage_axes_[id_].name + ".copy";
  int id = static_cast<int>(recorder_->stage_axes_.size());
  step.results.push_back(id);
  for (size_t i = 0; i < recorder_->stage_axes_[id_].spatial.size(); ++i) {
    axes.spatial.push_back(recorder_->next_axis_);
    step.results.push_back(recorder_->next_axis_++);
  }
  recorder_->record(std::move(step));
  put(recorder_->stage_axes_, id, std::move(axes));
  return StageRef(recorder_, id);
}

StageRef StageRef::rfactor(Loop k, Param factor, bool inner, Where at) {
  return rfactor(std::vector<Loop>{k}, factor, inner, at);
}

StageRef StageRef::rfactor(const std::vector<Loop>& ks, Param factor, bool inner, Where at) {
  Step step{StepKind::Rfactor, id_, ids(ks), {factor, Param(inner ? 1 : 0)}, {}, at};
  StepRecorder::StageAxes old = recorder_->stage_axes_[id_], axes;
  axes.name = old.name + ".rf";
  int id = static_cast<int>(recorder_->stage_axes_.size());
  step.results.push_back(id);
  for (size_t i = 0; i < old.spatial.size() + 1; ++i) {
    axes.spatial.push_back(recorder_->next_axis_);
    step.results.push_back(recorder_->next_axis_++);
  }
  // One axis stands for all of `ks`.
  for (size_t i = ks.size(); i < old.reduce.size() + 1; ++i) {
    axes.reduce.push_back(recorder_->next_axis_);
    step.results.push_back(recorder_->next_axis_++);
  }
  int parts = recorder_->next_axis_++;
  step.results.push_back(parts);
  recorder_->record(std::move(step));
  recorder_->stage_axes_[id_].reduce = {parts};
  put(recorder_->stage_axes_, id, std::move(axes));
  return StageRef(recorder_, id);
}

StageRef& StageRef::layout(const std::vector<StorageDim>& dims, Where at) {
  Step step{StepKind::Layout, id_, {}, {}, {}, at};
  for (const StorageDim& d : dims) {
    step.params.push_back(Param(d.dim));
    step.params.push_back(d.divisor);
    step.params.push_back(d.modulus);
  }
  recorder_->record(std::move(step));
  return *this;
}

}  // namespace heddle
