#include "network/cut/extract.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "dag/map_loads.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/schedule/template.h"
#include "network/passes/product_chain.h"
#include "schedule/image_chain.h"
#include "schedule/row_chain.h"

namespace heddle::network {
namespace {

/// The stages that end a node. plan_groups works from the outputs backwards and gives an
/// element-wise stage to its reader. Between kernels that is expensive: two readers compute it
/// twice, a sum of residuals grows with every layer, and equal layers are not recognised. Here a
/// node therefore continues along the element-wise stages that follow, up to the stage where all
/// that depends on it meets:
///
///   conv -> norm -> relu -+-> pad -> conv       conv's node ends at relu, and not at conv: a
///                         +----> add ...        convolution with its epilogue
class Cuts {
 public:
  Cuts(const ComputeDag& dag, const Target& target, const InPlacePlan& in_place)
      : dag_(dag),
        target_(target),
        on_gpu_(target.is_cuda()),
        l2_bytes_(target.l2_bytes),
        cut_(static_cast<size_t>(dag.size())),
        taken_(cut_),
        ends_(cut_),
        whole_(cut_),
        fused_(cut_) {
    for (const StageGroup& g : plan_groups(dag, &target, Chains::Expected)) {
      cut_[g.output_stage] = 1;
      if (g.anchor != g.output_stage) epilogues_.push_back({g.anchor, g.output_stage});
      for (const int s : g.fused) fused_[s] = 1;
      images_.insert(images_.end(), g.images.begin(), g.images.end());
    }
    for (const int s : in_place.wholes) cut_[s] = whole_[s] = 1;
    parts_ = in_place.parts;
  }

  std::vector<char> run(ChoiceList& choices) {
    choose_images(choices);
    const std::vector<int> given_away = choose_sums(choices);
    taken_ = cut_;
    for (const auto& [anchor, last] : epilogues_) take_between(anchor, last);
    for (int s = dag_.size() - 1; s >= 0; --s) {
      if (!cut_[s] || whole_[s] || ends_[s] || dag_.info(s).is_output || dag_.info(s).precomputable)
        continue;
      if (dag_.stage(s).num_outputs() == 1 && !gives_away_sum(s, choices)) extend(s);
    }
    for (const int s : given_away) {
      if (!taken_[s]) cut_[s] = 1;  // the other product could not take it
    }
    for (const int s : parts_) cut_[s] = 1;
    choose(choices);
    return std::move(cut_);
  }

 private:
  /// A convolution whose image only one other reads ends a node, or is computed in blocks of its
  /// reader.
  void choose_images(ChoiceList& choices) {
    std::sort(images_.begin(), images_.end(),
              [](const auto& a, const auto& b) { return a.product < b.product; });
    for (const StageGroup::Part& part : images_) {
      if (!choices.on(kFuse, place_of(dag_.stage(part.product)), leaves_cache(part),
                      "it is computed in blocks of the convolution that reads it"))
        cut_[part.product] = 1;
    }
  }

  /// Whether an image about as large as L2 goes to a depthwise convolution. Blocks of its channels
  /// save two passes over the image and compute next to nothing twice. A pointwise reader needs all
  /// channels, and its blocks are cut by rows alone, which gains less than the blocks of its own
  /// rule (docs/internals/decisions/convolutions.md).
  bool leaves_cache(const StageGroup::Part& part) const {
    constexpr double kShareOfL2 = 0.75;
    int reader = part.last;
    do {
      reader = dag_.info(reader).consumers[0];
    } while (!is_product(reader));
    const double bytes = static_cast<double>(dag_.info(part.last).points) *
                         dag_.stage(part.last).output(0).dtype().bytes();
    return image_read(dag_, reader).by_channels &&
           bytes >= kShareOfL2 * static_cast<double>(l2_bytes_);
  }

  /// Whether `choose_images` decides where `s` is computed.
  bool is_of_image(int s) const {
    return std::any_of(images_.begin(), images_.end(),
                       [&](const auto& part) { return part.product == s || part.last == s; });
  }

  /// Where two products meet in a sum, the product that would compute the sum may end before it,
  /// so that the other one computes it. Returns the ends of the epilogues that are given away.
  std::vector<int> choose_sums(ChoiceList& choices) {
    std::vector<int> given_away;
    for (auto& [anchor, last] : epilogues_) {
      const int end = before_sum(anchor, choices);
      if (end < 0) continue;
      given_away.push_back(last);
      cut_[last] = 0;
      cut_[end] = ends_[end] = 1;
      last = end;
    }
    return given_away;
  }

  /// The same for a product whose node has not been extended. Returns whether it ends here.
  bool gives_away_sum(int s, ChoiceList& choices) {
    const int end = is_product(s) ? before_sum(s, choices) : -1;
    if (end < 0) return false;
    cut_[s] = 0;
    cut_[end] = 1;
    take_between(s, end);
    taken_[end] = 1;
    return true;
  }

  /// The last stage of a product's node before a sum with an earlier product that is cut off, where
  /// the choice is to end there; else -1.
  int before_sum(int product, ChoiceList& choices) const {
    for (int at = product; is_private(dag_, at);) {
      const int reader = dag_.info(at).consumers[0];
      if (taken_[reader] || dag_.info(reader).is_output || !network::follows(dag_, reader, at))
        return -1;
      const std::vector<int>& reads = dag_.info(reader).producers;
      const bool meets = std::any_of(reads.begin(), reads.end(), [&](int p) {
        const std::vector<int> chain = p == at ? std::vector<int>{} : chain_to(dag_, p);
        return !chain.empty() && cut_[chain[0]] && chain[0] < product;
      });
      if (meets) {
        return choices.on(kStore, place_of(dag_.stage(at)), false,
                          "another product computes the sum")
                   ? at
                   : -1;
      }
      at = reader;
    }
    return -1;
  }

  void choose(ChoiceList& choices) {
    std::vector<int> store, fuse;
    for (int s = 0; s < dag_.size(); ++s) {
      if (may_be_stored(s) &&
          choices.on(kStore, place_of(dag_.stage(s)), on_gpu_ && !fused_[s] && normalises(s),
                     "it is stored, and not computed where it is read"))
        store.push_back(s);
      if (may_be_fused(s) && choices.on(kFuse, place_of(dag_.stage(s)), false,
                                        "it is computed in the nodes that read it"))
        fuse.push_back(s);
      const int product = product_of_chain(s);
      if (product >= 0 &&
          choices.on(kFuse, place_of(dag_.stage(product)), false,
                     "it is computed in blocks of rows of the product that reads it"))
        fuse.push_back(s);
    }
    for (const int s : fuse) cut_[s] = 0;
    for (const int s : store) {
      if (normalises(s)) take_reductions(s);
      cut_[s] = 1;
      extend(s);
    }
  }

  /// The product whose node ends at `end`, where one other product alone reads it and may compute
  /// its rows block by block; else -1.
  int product_of_chain(int end) const {
    if (on_gpu_ || !cut_[end] || whole_[end] || !runs_inside(end) || is_of_image(end)) return -1;
    if (std::find(parts_.begin(), parts_.end(), end) != parts_.end()) return -1;
    const std::vector<int>& readers = dag_.info(end).consumers;
    if (readers.size() != 1 || !is_product(readers[0])) return -1;
    int product = end;
    while (product >= 0 &&
           !(is_product(product) && runs_inside(product) && end_of_node(product) == end))
      --product;
    if (product < 0) return -1;
    std::vector<char> stored = cut_;
    stored[end] = 0;
    const RowChain chain(dag_, target_, readers[0], end_of_node(readers[0]), Chains::Possible,
                         stored);
    return chain.takes(end) && chain.takes(product) ? product : -1;
  }

  /// The stage that ends the node of `s`.
  int end_of_node(int s) const {
    while (!cut_[s]) s = dag_.info(s).consumers[0];
    return s;
  }

  /// Whether `s` is element-wise in rows of which it reads reductions, as the end of a layer norm
  /// is. On a GPU that is one kernel with its reductions, and a product that reads it has a plain
  /// operand.
  bool normalises(int s) const {
    const std::vector<int>& reads = dag_.info(s).producers;
    return !dag_.stage(s).is_reduction() && std::any_of(reads.begin(), reads.end(), [&](int p) {
      return dag_.info(p).points < dag_.info(s).points &&
             (is_row_sum(p) || (runs_inside(p) && reads_row_sum(p)));
    });
  }
  bool is_row_sum(int s) const {
    return dag_.info(s).stage_class == StageClass::SimpleReduction && runs_inside(s);
  }
  bool reads_row_sum(int s) const {
    const std::vector<int>& reads = dag_.info(s).producers;
    return !dag_.stage(s).is_reduction() &&
           std::any_of(reads.begin(), reads.end(), [&](int p) { return is_row_sum(p); });
  }

  /// Joins the reductions that `s` alone needs, and what lies between, to the node of `s`.
  void take_reductions(int s) {
    std::vector<char> needed(cut_.size());
    needed[s] = 1;
    for (int p = s - 1; p >= 0; --p) {
      const std::vector<int>& readers = dag_.info(p).consumers;
      const bool of_rows = dag_.info(p).points < dag_.info(s).points;
      if (!runs_inside(p) || is_product(p) || (taken_[p] && !of_rows) ||
          !std::all_of(readers.begin(), readers.end(), [&](int r) { return needed[r] != 0; }))
        continue;
      needed[p] = 1;
      cut_[p] = 0;
    }
  }

  bool runs_inside(int s) const {
    const StageInfo& info = dag_.info(s);
    return !dag_.stage(s).is_placeholder() && !info.is_output && !info.precomputable &&
           !info.scan && info.case_periods.empty() && dag_.stage(s).num_outputs() == 1;
  }

  bool is_product(int s) const { return dag_.info(s).stage_class == StageClass::ComplexReduction; }

  /// Whether `s` is computed in the node of a product that reads it, or is itself a product before
  /// another one in a node.
  bool may_be_stored(int s) const {
    if (cut_[s] || !runs_inside(s) || is_of_image(s)) return false;
    const std::vector<int>& readers = dag_.info(s).consumers;
    if (is_product(s))
      return std::any_of(readers.begin(), readers.end(), [&](int r) { return leads_on(r); });
    return !dag_.stage(s).is_reduction() && dag_.info(s).flops_per_point > 0 &&
           std::any_of(readers.begin(), readers.end(), [&](int r) { return is_product(r); });
  }

  /// Whether a product reads `s`, or a stage after it in its node.
  bool leads_on(int s) const {
    if (is_product(s)) return true;
    if (cut_[s]) return false;
    const std::vector<int>& readers = dag_.info(s).consumers;
    return std::any_of(readers.begin(), readers.end(), [&](int r) { return leads_on(r); });
  }

  /// Whether `s` ends a node that sums up nothing, and recomputing it for its readers is cheap.
  bool may_be_fused(int s) const {
    if (!cut_[s] || whole_[s] || !runs_inside(s)) return false;
    if (std::find(parts_.begin(), parts_.end(), s) != parts_.end()) return false;
    const std::vector<int>& readers = dag_.info(s).consumers;
    if (readers.size() > 2 || (readers.size() == 2 && !is_cheap(s))) return false;
    if (std::any_of(readers.begin(), readers.end(), [&](int r) { return whole_[r] != 0; }))
      return false;
    return !sums_up(s);
  }

  bool is_cheap(int s) const { return dag_.info(s).transcendentals_per_point == 0; }

  bool sums_up(int s) const {
    if (dag_.stage(s).is_reduction() || dag_.info(s).scan) return true;
    const std::vector<int>& reads = dag_.info(s).producers;
    return std::any_of(reads.begin(), reads.end(), [&](int p) {
      return !cut_[p] && !dag_.stage(p).is_placeholder() && !dag_.info(p).precomputable &&
             sums_up(p);
    });
  }

  /// The stages from a reduction to the output stage of its group are its epilogue and end no other
  /// node. Where two convolutions meet in a sum, one of them takes the sum and the stages after it:
  ///
  ///   conv -> bias -+                      a node that ends at bias
  ///   conv -> bias -+-> add -> relu        a node that ends at relu
  void take_between(int anchor, int last) {
    std::vector<char> depends(cut_.size());
    depends[anchor] = 1;
    for (int u = anchor + 1; u < last; ++u) {
      for (const int p : dag_.info(u).producers) depends[u] |= depends[p];
      if (depends[u]) taken_[u] = 1;  // all its readers lead to `last`
    }
  }

  void extend(int s) {
    std::vector<char> region(cut_.size());
    std::vector<int> members{s};
    region[s] = 1;
    size_t end = 0;
    std::set<int> readers(dag_.info(s).consumers.begin(), dag_.info(s).consumers.end());
    while (!readers.empty() && members.size() < kMostStages) {
      const int u = *readers.begin();
      readers.erase(readers.begin());
      if (!follows(u, region, s)) continue;
      region[u] = 1;
      members.push_back(u);
      readers.insert(dag_.info(u).consumers.begin(), dag_.info(u).consumers.end());
      if (closed(members, region)) end = members.size() - 1;
    }
    if (end == 0) return;
    cut_[s] = 0;
    cut_[members[end]] = 1;
    for (size_t m = 0; m <= end; ++m) taken_[members[m]] = 1;
  }

  /// Whether `u` reads the results of the region element by element and belongs to no other node.
  bool follows(int u, const std::vector<char>& region, int s) const {
    const Operation& op = dag_.stage(u);
    if (op.is_placeholder() || op.is_reduction() || taken_[u] || op.num_outputs() != 1)
      return false;
    bool reads = false;
    for (const Access& a : dag_.info(u).reads) {
      if (!region[a.producer]) continue;
      reads = true;
      if (a.pattern != AccessPattern::Elementwise) return false;
    }
    return reads && dag_.stage(s).output(0).extents() == op.output(0).extents();
  }

  /// Whether only the last member is read outside of the region.
  bool closed(const std::vector<int>& members, const std::vector<char>& region) const {
    return std::all_of(members.begin(), members.end() - 1, [&](int m) {
      const std::vector<int>& readers = dag_.info(m).consumers;
      return !dag_.info(m).is_output &&
             std::all_of(readers.begin(), readers.end(), [&](int r) { return region[r]; });
    });
  }

  /// The most stages by which a node is extended. Its work grows with their square.
  static constexpr size_t kMostStages = 256;

  const ComputeDag& dag_;
  const Target& target_;
  bool on_gpu_;
  int64_t l2_bytes_;
  std::vector<char> cut_, taken_;
  std::vector<char> ends_;                ///< stages at which a choice ends their node
  std::vector<char> whole_;               ///< concats that share memory with their parts
  std::vector<char> fused_;               ///< parts of an attention
  std::vector<int> parts_;                ///< the parts of these concats
  std::vector<StageGroup::Part> images_;  ///< that other convolutions may compute in blocks
  std::vector<std::pair<int, int>>
      epilogues_;  ///< pairs of a reduction and the output stage of its group
};

/// The stages of one node: those that it reads from memory, and those that it computes.
class NodeBuilder {
 public:
  NodeBuilder(const ComputeDag& dag, const std::vector<char>& external)
      : dag_(dag), external_(external) {}

  ExtractedNode build(int last, const std::vector<Tensor>& outputs) {
    copy_long_chains(last);
    const Ref<const Operation> output_stage = copy(last);
    node_.outputs = outputs;
    for (const Tensor& t : outputs) node_.task_outputs.push_back(output_stage->output(t.index()));
    sort_inputs();
    return std::move(node_);
  }

 private:
  /// Copies the stages of a very large node one by one, so that copy() does not fill the stack.
  void copy_long_chains(int last) {
    constexpr size_t kMany = 512;
    std::set<int, std::greater<>> open{last};
    std::vector<int> needed;
    while (!open.empty()) {
      needed.push_back(*open.begin());
      open.erase(open.begin());
      for (const int p : dag_.info(needed.back()).producers) {
        if (!external_[p]) open.insert(p);
      }
    }
    if (needed.size() < kMany) return;
    for (size_t n = needed.size(); n-- > 0;) (void)copy(needed[n]);
  }

  /// The operation that computes stage `s` from this node's own tensors. It keeps its axes: they
  /// are identities only within a declaration.
  Ref<const Operation> copy(int s) {
    if (const auto it = copies_.find(s); it != copies_.end()) return it->second;
    const Operation& op = dag_.stage(s);
    std::vector<Expr> bodies = dag::map_loads(op.bodies(), [&](const Load& load) {
      return make_load(own(tensor_of(load.buffer)).buffer(), load.indices);
    });
    Ref<const Operation> result =
        Operation::make_compute(op.name(), op.axes(), std::move(bodies), op.tag(), op.where());
    node_.stages.push_back(s);
    return copies_.emplace(s, std::move(result)).first->second;
  }

  /// The tensor of this node that corresponds to `t`.
  Tensor own(const Tensor& t) {
    const int s = dag_.index_of(t.op());
    if (!external_[s]) return copy(s)->output(t.index());
    const auto [known, is_new] =
        inputs_.try_emplace({s, t.index()}, static_cast<int>(node_.inputs.size()));
    if (!is_new) return node_.task_inputs[static_cast<size_t>(known->second)];
    node_.inputs.push_back(t);
    std::shared_ptr<const NDArray> data;
    if (const NDArray* values = t.op()->data()) data = std::make_shared<const NDArray>(*values);
    node_.task_inputs.push_back(Operation::make_placeholder(t.shape(), t.dtype(), t.name(),
                                                            t.op()->is_constant(), t.op()->where(),
                                                            std::move(data))
                                    ->output(0));
    return node_.task_inputs.back();
  }

  /// Sorts the inputs in the order of the declaration's graph, which is the same for equal
  /// declarations. The inputs of equal nodes then correspond by position.
  void sort_inputs() {
    std::vector<Tensor> inputs, order = ComputeDag(node_.task_outputs).placeholders();
    std::unordered_map<const Operation*, size_t> at;
    for (size_t i = 0; i < node_.task_inputs.size(); ++i) at.emplace(node_.task_inputs[i].op(), i);
    for (const Tensor& t : order) inputs.push_back(node_.inputs[at.at(t.op())]);
    node_.inputs = std::move(inputs);
    node_.task_inputs = std::move(order);
  }

  const ComputeDag& dag_;
  const std::vector<char>& external_;
  ExtractedNode node_;
  std::map<std::pair<int, int>, int> inputs_;  ///< positions by stage and output
  std::unordered_map<int, Ref<const Operation>> copies_;
};

}  // namespace

std::vector<ExtractedNode> extract_nodes(const ComputeDag& dag, const ComputeDag& decide,
                                         const Target& target, const InPlacePlan& in_place,
                                         ChoiceList& choices) {
  const std::vector<char> cuts = Cuts(decide, target, in_place).run(choices);
  std::vector<char> external(cuts);
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.stage(s).is_placeholder()) external[s] = 1;
    if (dag.info(s).precomputable) external[s] = 0;
  }
  // Nodes are made from the outputs backwards. A stage whose readers all prepare it is not a node.
  std::vector<std::vector<Tensor>> wanted(static_cast<size_t>(dag.size()));  // by stage
  const auto want = [&](const Tensor& t) {
    std::vector<Tensor>& known = wanted[static_cast<size_t>(dag.index_of(t.op()))];
    if (std::none_of(known.begin(), known.end(), [&](const Tensor& w) { return w.same_as(t); }))
      known.push_back(t);
  };
  for (const Tensor& t : dag.outputs()) want(t);
  std::vector<ExtractedNode> nodes;
  for (int output_stage = dag.size() - 1; output_stage >= 0; --output_stage) {
    if (!cuts[output_stage]) continue;
    std::vector<Tensor> outputs = wanted[static_cast<size_t>(output_stage)];
    if (outputs.empty()) continue;
    std::sort(outputs.begin(), outputs.end(),
              [](const Tensor& a, const Tensor& b) { return a.index() < b.index(); });
    std::vector<Tensor> inputs;
    if (std::binary_search(in_place.wholes.begin(), in_place.wholes.end(), output_stage)) {
      inputs = dag.stage(output_stage).inputs();
    } else {
      nodes.push_back(NodeBuilder(dag, external).build(output_stage, outputs));
      inputs = nodes.back().inputs;
    }
    for (const Tensor& t : inputs) want(t);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace heddle::network
