#include "schedule/steps/schedule_state.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_set>

namespace heddle {
namespace {

int add_root_axis(ScheduleState& s, const Axis& axis, int stage) {
  AxisState a;
  a.defined = true;
  a.name = axis.name();
  a.kind = axis->kind;
  a.stage = stage;
  a.var = axis.var();
  a.extent = axis->extent;
  a.static_extent = axis.largest_extent();
  s.axes.push_back(std::move(a));
  return static_cast<int>(s.axes.size()) - 1;
}

}  // namespace

ScheduleState::ScheduleState(ComputeDag d) : dag(std::move(d)) {
  std::unordered_set<std::string> names;
  for (int i = 0; i < dag.size(); ++i) {
    const Operation& op = dag.stage(i);
    StageState st;
    // Names are for readers. Two stages of one name are told apart by their numbers.
    st.name = op.name();
    if (names.contains(st.name)) st.name += "#" + std::to_string(i);
    names.insert(st.name);
    st.placeholder = op.is_placeholder();
    st.constant = op.is_constant();
    st.output = dag.info(i).is_output;
    for (int o = 0; o < op.num_outputs(); ++o) st.buffers.push_back(op.output_buffer(o));
    st.bodies = op.bodies();
    // An input has no loops, but a copy of it does, with one axis for each dimension.
    for (size_t d = 0; op.is_placeholder() && d < op.output_buffer(0)->shape.size(); ++d) {
      Axis axis("d" + std::to_string(d), op.output_buffer(0)->shape[d], AxisKind::Spatial);
      st.spatial.push_back(add_root_axis(*this, axis, i));
    }
    for (const Axis& a : op.axes()) st.spatial.push_back(add_root_axis(*this, a, i));
    for (const Axis& a : op.reduce_axes()) st.reduce.push_back(add_root_axis(*this, a, i));
    st.leaves = st.spatial;
    st.leaves.insert(st.leaves.end(), st.reduce.begin(), st.reduce.end());
    stages.push_back(std::move(st));
  }
}

int ScheduleState::leaf_position(int axis) const {
  const auto& leaves = stages[axes[axis].stage].leaves;
  auto it = std::find(leaves.begin(), leaves.end(), axis);
  return it == leaves.end() ? -1 : static_cast<int>(it - leaves.begin());
}

std::string ScheduleState::loops_text(int stage) const {
  std::string out;
  for (int id : stages[stage].leaves) {
    const AxisState& a = axes[id];
    if (!out.empty()) out += " | ";
    if (a.loop != LoopKind::Serial) out += std::string(to_string(a.loop)) + " ";
    if (a.kind == AxisKind::Reduce) out += "reduce ";
    out += a.name + " 0.." + std::to_string(a.static_extent);
  }
  return out;
}

int ScheduleState::stage_of(const Buffer& buffer) const {
  for (size_t i = 0; i < stages.size(); ++i) {
    for (const Buffer& b : stages[i].buffers) {
      if (b == buffer) return static_cast<int>(i);
    }
  }
  return -1;
}

std::vector<int> ScheduleState::possible_readers(int stage) const {
  const auto made = stages.begin() + dag.size();  // by steps
  std::vector<int> out;
  if (stage >= dag.size() || std::any_of(made, stages.end(), [](const StageState& s) {
        return s.placement == Placement::Inlined;
      })) {
    out.resize(stages.size());
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  std::set<int> open(dag.info(stage).consumers.begin(), dag.info(stage).consumers.end());
  while (!open.empty()) {
    const int s = *open.begin();
    open.erase(open.begin());
    out.push_back(s);
    if (stages[static_cast<size_t>(s)].placement == Placement::Inlined)
      open.insert(dag.info(s).consumers.begin(), dag.info(s).consumers.end());
  }
  for (size_t s = static_cast<size_t>(dag.size()); s < stages.size(); ++s)
    out.push_back(static_cast<int>(s));
  return out;
}

std::vector<int> ScheduleState::readers(int stage) const {
  std::vector<int> out;
  for (const int i : possible_readers(stage)) {
    const StageState& reader = stages[static_cast<size_t>(i)];
    if (reader.placement == Placement::Inlined) continue;
    const auto reads = [&](const Expr& in) {
      return any_below(in, [&](const Expr& e) {
        const Load* load = e.as<Load>();
        const std::vector<Buffer>& own = stages[static_cast<size_t>(stage)].buffers;
        return load && std::find(own.begin(), own.end(), load->buffer) != own.end();
      });
    };
    if ((reader.reach.defined() && reads(reader.reach)) ||
        std::any_of(reader.bodies.begin(), reader.bodies.end(), reads))
      out.push_back(i);
  }
  return out;
}

std::string why_not_bound(const ScheduleState& state, int stage, int axis, int64_t number) {
  const std::optional<LoopKind> index = LoopKind::of_number(number);
  if (!index || (!is_block(*index) && !is_thread(*index) && *index != LoopKind::PairX))
    return "a loop is bound to one of BlockX ... ThreadZ, or to clusters";
  const LoopKind kind = *index;
  const StageState& st = state.stages[static_cast<size_t>(stage)];
  if (st.last_block && is_block(kind)) return "one block computes it, the last to finish";
  for (const int other : st.leaves) {
    const AxisState& a = state.axes[static_cast<size_t>(other)];
    const bool both_blocks = is_block(a.loop) && is_block(kind);
    if (other != axis && (a.loop == kind || (both_blocks && grid_dim(a.loop) == grid_dim(kind))))
      return "loop '" + a.name + "' is bound to it already";
  }
  return "";
}

std::string why_not_by_last_block(const ScheduleState& state, int stage) {
  const StageState& st = state.stages[static_cast<size_t>(stage)];
  if (st.placeholder) return "it is an input, nothing computes it";
  if (st.placement != Placement::Root) return "it is computed at a loop of another stage";
  for (const int id : st.leaves) {
    const AxisState& a = state.axes[static_cast<size_t>(id)];
    if (is_block(a.loop)) return "loop '" + a.name + "' goes over blocks";
  }
  return "";
}

}  // namespace heddle
