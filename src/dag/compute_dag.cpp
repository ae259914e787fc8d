// Builds the graph. Boost.Graph stays in this file: its headers take seconds to compile.
#include "heddle/dag/compute_dag.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "dag/internal.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

// An edge leads from a stage to one that it reads. Edges are kept in sets, so a stage that reads
// another one twice has one edge.
using Graph = boost::adjacency_list<boost::setS, boost::vecS, boost::bidirectionalS>;

/// Operations in depth-first order from the outputs, and their reads. The order depends on the
/// declaration alone, so that everything derived from it does.
class Discovery {
 public:
  struct Stage {
    Ref<const Operation> op;
    std::vector<Access> reads;
  };

  // The stages whose reads are not all visited lie on a stack of their own, because chains may be
  // longer than the stack of the thread.
  void visit(const Ref<const Operation>& last) {
    enter(last);
    while (!open_.empty()) {
      auto& [stage, next] = open_.back();
      if (next < stage.reads.size()) {
        enter(stage.reads[next++].tensor.op_ref());
        continue;
      }
      index_[stage.op.get()] = static_cast<int>(stages_.size());
      stages_.push_back(std::move(stage));
      open_.pop_back();
    }
  }
  std::vector<Stage>& stages() { return stages_; }
  int index(const Operation* op) const { return index_.at(op); }

 private:
  void enter(const Ref<const Operation>& op) {
    if (!index_.insert({op.get(), -1}).second) return;
    Stage stage{op, {}};
    if (!op->is_placeholder()) {
      stage.reads = internal::analyze_reads(op->bodies(), op->axes(), op->reduce_axes());
    }
    for (const Access& read : stage.reads) {
      HEDDLE_ICHECK(static_cast<bool>(read.tensor),
                    "'" + op->name() + "' reads '" + read.buffer->name + "', which is no tensor");
    }
    open_.emplace_back(std::move(stage), 0);
  }

  std::unordered_map<const Operation*, int> index_;
  std::vector<Stage> stages_;
  std::vector<std::pair<Stage, size_t>> open_;  ///< with the number of reads that were visited
};

void check_outputs(const std::vector<Tensor>& outputs) {
  if (outputs.empty()) {
    throw_user_error("a ComputeDag needs at least one output", {}, "name what is to be computed");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& t = outputs[i];
    if (!t)
      throw_user_error("output " + std::to_string(i) + " is a Tensor that was never assigned");
    if (t.op()->is_placeholder()) {
      throw_user_error("output " + std::to_string(i) + ", '" + t.name() + "', is a placeholder",
                       t.op()->where(), "an output is computed; copy it with compute(...)");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (outputs[j].same_as(t)) {
        throw_user_error("'" + t.name() + "' is named as an output twice", t.op()->where());
      }
    }
  }
}

AccessPattern most_general(const std::vector<Access>& reads, int producer) {
  AccessPattern pattern = AccessPattern::Elementwise;
  for (const Access& r : reads) {
    if (r.producer == producer) pattern = std::max(pattern, r.pattern);
  }
  return pattern;
}

int64_t elements(const std::vector<Expr>& shape) {
  int64_t n = 1;
  for (const Expr& e : shape) n *= dag::extent_of(e);
  return n;
}

void measure(const Operation& op, StageInfo* info) {
  info->points = elements(op.output_buffer(0)->shape);
  for (const Axis& a : op.reduce_axes()) info->reduce_points *= dag::extent_of(a->extent);
  const dag::Work work = dag::count_work(op);
  info->flops_per_point = work.flops;
  info->transcendentals_per_point = work.special;
  info->flops = work.flops * static_cast<double>(info->points) *
                static_cast<double>(info->scan ? 1 : info->reduce_points);
}

}  // namespace

void ComputeDag::Impl::add_stages(const std::vector<Tensor>& of) {
  Discovery found;
  for (const Tensor& t : of) found.visit(t.op_ref());

  Graph graph(found.stages().size());
  for (std::size_t s = 0; s < found.stages().size(); ++s) {
    for (const Access& read : found.stages()[s].reads) {
      boost::add_edge(s, static_cast<std::size_t>(found.index(read.tensor.op())), graph);
    }
  }
  // Edges lead to producers. The sort puts the targets of edges first, so producers come first.
  std::vector<std::size_t> order;
  boost::topological_sort(graph, std::back_inserter(order));
  std::vector<int> position(order.size());
  for (std::size_t n = 0; n < order.size(); ++n) position[order[n]] = static_cast<int>(n);

  for (std::size_t vertex : order) {
    Discovery::Stage& stage = found.stages()[vertex];
    StageInfo info;
    info.reads = std::move(stage.reads);
    for (Access& read : info.reads) {
      read.producer = position[static_cast<std::size_t>(found.index(read.tensor.op()))];
    }
    for (auto [e, end] = boost::out_edges(vertex, graph); e != end; ++e) {
      info.producers.push_back(position[boost::target(*e, graph)]);
    }
    for (auto [e, end] = boost::in_edges(vertex, graph); e != end; ++e) {
      info.consumers.push_back(position[boost::source(*e, graph)]);
    }
    std::sort(info.producers.begin(), info.producers.end());
    std::sort(info.consumers.begin(), info.consumers.end());
    index.emplace(stage.op.get(), static_cast<int>(stages.size()));
    stages.push_back(std::move(stage.op));
    infos.push_back(std::move(info));
  }
}

void ComputeDag::Impl::analyze(std::size_t s) {
  const Operation& op = *stages[s];
  StageInfo& info = infos[s];
  info.scan = dag::find_scan(op);
  measure(op, &info);
  const auto all_producers = [&](auto&& holds) {
    return std::all_of(info.producers.begin(), info.producers.end(), [&](int p) {
      return holds(infos[static_cast<std::size_t>(p)], *stages[static_cast<std::size_t>(p)]);
    });
  };
  info.depends_only_on_constants =
      op.is_placeholder() ? op.is_constant()
                          : all_producers([](const StageInfo& producer, const Operation&) {
                              return producer.depends_only_on_constants;
                            });
  info.precomputable =
      !info.producers.empty() && all_producers([](const StageInfo& producer, const Operation& by) {
        return by.is_placeholder() ? by.is_constant() : producer.precomputable;
      });
  info.case_periods = dag::case_periods(op, info.reads, [&](int p) -> const std::vector<int64_t>& {
    return infos[static_cast<std::size_t>(p)].case_periods;
  });
  std::vector<dag::Consumer> consumers;
  for (int c : info.consumers) {
    const auto n = static_cast<std::size_t>(c);
    consumers.push_back({stages[n]->name(), most_general(infos[n].reads, static_cast<int>(s))});
  }
  dag::classify(op, consumers, &info);
}

ComputeDag::ComputeDag(std::vector<Tensor> outputs) {
  check_outputs(outputs);
  auto impl = std::make_shared<Impl>();
  impl->add_stages(outputs);
  impl->outputs = std::move(outputs);
  for (const Tensor& t : impl->outputs) {
    impl->infos[static_cast<std::size_t>(impl->index.at(t.op()))].is_output = true;
  }
  // Producers come before their readers, so what a stage needs of its producers is there.
  for (std::size_t s = 0; s < impl->stages.size(); ++s) impl->analyze(s);
  impl_ = std::move(impl);
}

struct ComputeDag::Origin {
  std::string name;
  ComputeDag direct;
  std::vector<std::pair<Tensor, Tensor>> placeholders;
};

const std::string& ComputeDag::alternative() const {
  static const std::string none;
  return origin_ ? origin_->name : none;
}

const ComputeDag& ComputeDag::direct() const { return origin_ ? origin_->direct : *this; }

Tensor ComputeDag::counterpart(const Tensor& t) const {
  if (!origin_) return t;
  for (const auto& [theirs, ours] : origin_->placeholders) {
    if (theirs.same_as(t)) return ours;
  }
  const std::vector<Tensor>& theirs = origin_->direct.outputs();
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    if (theirs[i].same_as(t)) return outputs()[i];
  }
  // `t` is another output of an operation with an output that is one of the graph's. A rebuilt
  // operation keeps the order of outputs.
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    if (theirs[i].op() == t.op()) return Tensor(outputs()[i].op_ref(), t.index());
  }
  return t;
}

ComputeDag ComputeDag::as_alternative(std::string name, const ComputeDag& direct,
                                      std::vector<std::pair<Tensor, Tensor>> placeholders) const {
  HEDDLE_ICHECK(outputs().size() == direct.outputs().size(),
                "alternative '" + name + "' has other outputs");
  ComputeDag out(*this);
  out.origin_ =
      std::make_shared<const Origin>(Origin{std::move(name), direct, std::move(placeholders)});
  return out;
}

ComputeDag::~ComputeDag() = default;
ComputeDag::ComputeDag(ComputeDag&&) noexcept = default;
ComputeDag& ComputeDag::operator=(ComputeDag&&) noexcept = default;
ComputeDag::ComputeDag(const ComputeDag&) = default;
ComputeDag& ComputeDag::operator=(const ComputeDag&) = default;

const std::vector<Tensor>& ComputeDag::outputs() const { return impl_->outputs; }
int ComputeDag::size() const { return static_cast<int>(impl_->stages.size()); }
const Operation& ComputeDag::stage(int i) const { return *stage_ref(i); }

Ref<const Operation> ComputeDag::stage_ref(int i) const {
  HEDDLE_ICHECK(0 <= i && i < size(), "no stage " + std::to_string(i));
  return impl_->stages[static_cast<std::size_t>(i)];
}

int ComputeDag::index_of(const Operation* op) const {
  const auto it = impl_->index.find(op);
  return it == impl_->index.end() ? -1 : it->second;
}

const StageInfo& ComputeDag::info(int i) const {
  HEDDLE_ICHECK(0 <= i && i < size(), "no stage " + std::to_string(i));
  return impl_->infos[static_cast<std::size_t>(i)];
}

std::vector<Tensor> ComputeDag::placeholders() const {
  std::vector<Tensor> result;
  for (const auto& op : impl_->stages) {
    if (op->is_placeholder()) result.push_back(op->output(0));
  }
  return result;
}

std::vector<Tensor> ComputeDag::unread_placeholders() const {
  std::vector<Tensor> result;
  std::unordered_set<const Operation*> seen;
  std::vector<Tensor> todo;
  const auto follow = [&](const std::vector<Tensor>& tensors) {
    todo.insert(todo.end(), tensors.rbegin(), tensors.rend());
  };
  for (const auto& op : impl_->stages) follow(op->unread());
  while (!todo.empty()) {
    const Tensor t = todo.back();
    todo.pop_back();
    if (!seen.insert(t.op()).second) continue;
    if (t.op()->is_placeholder() && index_of(t.op()) < 0) result.push_back(t);
    follow(t.op()->unread());
    follow(t.op()->inputs());
  }
  return result;
}

double ComputeDag::total_flops() const {
  double flops = 0;
  for (const StageInfo& info : impl_->infos) flops += info.flops;
  return flops;
}

int64_t ComputeDag::compulsory_bytes() const {
  int64_t bytes = 0;
  const auto add = [&](const Tensor& t) { bytes += elements(t.shape()) * t.dtype().bytes(); };
  for (const Tensor& t : placeholders()) add(t);
  for (const Tensor& t : impl_->outputs) add(t);
  return bytes;
}

uint64_t ComputeDag::structural_hash() const {
  std::call_once(impl_->hashed, [this] {
    impl_->hash = dag::hash_stages(impl_->stages, impl_->index, impl_->outputs);
  });
  return impl_->hash;
}

uint64_t ComputeDag::shape_class() const {
  return dag::hash_stages(impl_->stages, impl_->index, impl_->outputs, dag::Detail::Structure);
}

std::vector<int64_t> ComputeDag::extents() const {
  std::vector<int64_t> result;
  for (const auto& op : impl_->stages) {
    if (op->is_placeholder()) {
      for (const Expr& e : op->output_buffer(0)->shape) result.push_back(dag::extent_of(e));
    }
    for (const auto* axes : {&op->axes(), &op->reduce_axes()}) {
      for (const Axis& a : *axes) result.push_back(dag::extent_of(a->extent));
    }
  }
  return result;
}

}  // namespace heddle
