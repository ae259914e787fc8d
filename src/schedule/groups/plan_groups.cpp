// Fusion decides which stages share one loop nest. It goes greedily from the outputs backwards, by
// access pattern:
//   - an output, or a stage that several groups need, is materialised: it is the output stage of
//     a group;
//   - a reduction whose only readers are an element-wise chain up to an output stage without an
//     anchor joins the group of that output stage;
//   - on GPUs also where the output stage takes a part of it, as of a padded product of narrow
//     types (pad_product.cpp), whose sums in f32 would take longer to store than to compute;
//   - a reduction along the rows of an output stage (a softmax's maximum) may be computed per row;
//   - the stages of attention on the tensor cores of a GPU are one group (dag/attention.h), and so is
//     a matrix of products with the reduction of its rows (dag/computed_matrix.h), and many stages that
//     a block of a GPU runs on rows of its own (row_program.h);
//   - on CPUs, stages after a product that have its rows are computed along with it (row_chain.h),
//     and so is a convolution whose image one other convolution reads (image_chain.h);
//   - a stage that depends on constants alone and does arithmetic is stored and computed once;
//   - cheap stages without reuse are inlined, unless computing them again for each reader costs
//     more than storing them (recomputation.h); all others are placed by their own meta-templates.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "dag/few_bits.h"
#include "heddle/dag/attention.h"
#include "heddle/dag/computed_matrix.h"
#include "heddle/dag/operations.h"
#include "heddle/dag/scatter.h"
#include "heddle/schedule/template.h"
#include "ir/depth.h"
#include "schedule/groups/computed_apart.h"
#include "schedule/groups/fused_chains.h"
#include "schedule/groups/image_chain.h"
#include "schedule/groups/load_counts.h"
#include "schedule/groups/packed_copy.h"
#include "schedule/groups/recomputation.h"
#include "schedule/groups/row_chain.h"

namespace heddle {
namespace {

// The levels of the deepest body of `op`.
int height_of(const Operation& op) {
  int height = 0;
  for (const Expr& body : op.bodies())
    height = std::max(height, height_up_to(body, kDeepestExpression));
  return height;
}

class Planner {
 public:
  Planner(const ComputeDag& dag, const Target* target, Chains chains)
      : dag_(dag),
        which_chains_(chains),
        cpu_(target && target->kind == "llvm" ? target : nullptr),
        gpu_(target && target->is_cuda()),
        has_matrix_units_(target && target->is_cuda() && target->gpu.sm() >= 80),
        group_of_(dag.size()),
        inlined_(dag.size(), 0),
        unpacked_(dag.size(), 0),
        copies_(dag.size(), 1),
        times_(dag.size(), 1),
        carried_(dag.size(), 0),
        rates_(rates_of(target ? *target : Target())),
        levels_(dag.size(), 0),
        followed_(dag),
        loads_(static_cast<size_t>(dag.size())),
        fused_(find_fused_chains(dag, target)) {}

  std::vector<StageGroup> run() {
    for (int s = dag_.size() - 1; s >= 0; --s) {
      const StageInfo& info = dag_.info(s);
      if (info.stage_class == StageClass::Placeholder) continue;
      place(s, info);
    }
    std::sort(groups_.begin(), groups_.end(),
              [](const auto& a, const auto& b) { return a.output_stage < b.output_stage; });
    find_operands();
    for (StageGroup& g : groups_) {
      std::sort(g.inlined.begin(), g.inlined.end());
      std::sort(g.tunable.begin(), g.tunable.end());
      std::sort(g.chain.begin(), g.chain.end());
      g.reason = dag_.info(g.anchor).reason;
      if (g.anchor != g.output_stage)
        g.reason += "; computed inside '" + dag_.stage(g.output_stage).name() + "'";
    }
    return std::move(groups_);
  }

 private:
  void open(int s) {
    StageGroup g;
    g.output_stage = g.anchor = s;
    g.anchor_class = dag_.info(s).stage_class;
    if (g.anchor_class == StageClass::LocationTunable) g.anchor_class = StageClass::DirectCompute;
    followed_.begin(s);
    group_of_[s] = {static_cast<int>(groups_.size())};
    groups_.push_back(std::move(g));
  }

  void place(int s, const StageInfo& info) {
    if (fused_.of[s] >= 0) return place_fused(s, fused_.chains.at(fused_.of[s]));
    // A scan has loops of its own, in the order of the scan, and a scatter in that of its sources.
    if (info.is_output || info.scan || find_scatter(dag_.stage(s))) return open(s);
    if (feeds_attentions(info) || feeds_rows(s, info) ||
        (fused_.operands.count(s) && info.flops_per_point > 0))
      return open(s);
    bool inline_it = inlinable(s, info);
    // A chain that became one expression would be deeper than what walks expressions allows.
    levels_[s] = levels_below(info) + height_of(dag_.stage(s));
    if (inline_it && levels_below(info) > 0 && levels_[s] > kMostLevels) return open(s);
    std::set<int> groups;
    for (int c : info.consumers) groups.insert(group_of_[c].begin(), group_of_[c].end());
    if (groups.size() == 1 && unpacks(s, info)) {
      unpacked_[s] = 1;
      return inline_into(s, groups);
    }
    // If the stage were inlined or computed with its readers, each call would compute it. A stage
    // that only changes indices costs nothing where it is read, and packing includes it.
    if (info.precomputable && (info.flops_per_point > 0 || !inline_it || read_by_strides(s) ||
                               (cpu_ && brings_together(dag_, s, *cpu_)) || joins_bits(info)))
      return open(s);
    if (!info.case_periods.empty()) return place_cases(s, info, groups);
    if (feeds_chains(info, groups)) return open(s);
    if (groups.size() == 1 && place_in_part(s, groups)) return;
    bool reduction = dag_.stage(s).is_reduction();
    copies_[s] = reduction ? 1 : copies(s, info);
    if (!reduction && groups.size() > 1 && reads_several(info)) return open(s);
    if (!reduction && copies_[s] <= kMaxCopies && inline_it && pays_again(s, info))
      return inline_into(s, groups);
    if (groups.size() != 1) return open(s);
    followed_.follow(s);
    StageGroup& g = groups_[*groups.begin()];
    if (!reduction && g.anchor_class == StageClass::DirectCompute &&
        (is_read_apart(s, info) || repeats_in_rows(s, g)))
      return open(s);
    if (reduction && !join_reduction(s, info, g)) return open(s);
    if (!reduction && keeps_product_out(info, g)) return open(s);
    if (!reduction) g.tunable.push_back(s);
    if (in_chain(s, g)) g.chain.push_back(s);
    group_of_[s] = groups;
  }

  void inline_into(int s, const std::set<int>& groups) {
    inlined_[s] = 1;
    followed_.follow(s);
    group_of_[s] = groups;
    for (const int g : groups) groups_[static_cast<size_t>(g)].inlined.push_back(s);
  }

  // Whether `s` makes wide elements of constants of few bits, of which a product of few rows reads
  // each once or a few times. Such a product waits for memory, so reading the bits and unpacking them
  // in registers takes less time than reading what was computed once.
  bool unpacks(int s, const StageInfo& info) const {
    // On GPUs each further row of a block unpacks them again.
    const int64_t few_rows = cpu_ ? 4 : 1;
    if ((!cpu_ && !gpu_) || !info.precomputable || info.consumers.size() != 1) return false;
    const dag::Widening by = gpu_ ? dag::kWidensOnGpu : dag::Widening();
    if (by.through_stages && unpacked_[info.consumers[0]])
      return info.flops_per_point > 0 && dag::widens_bits(dag_, s, by);
    const StageInfo& reader = dag_.info(info.consumers[0]);
    if (reader.stage_class != StageClass::ComplexReduction ||
        reader.points * reader.reduce_points > few_rows * info.points)
      return false;
    return dag::widens_bits(dag_, s, by);
  }

  // Whether the stage is several constants as one, which its readers unpack: where they chose among them in each
  // element, no word would be unpacked as one.
  bool joins_bits(const StageInfo& info) const {
    return gpu_ && info.reads.size() > 1 && std::ranges::all_of(info.consumers, [&](int c) {
             return dag::widens_bits(dag_, c, dag::kWidensOnGpu);
           });
  }

  // Whether the parts of a reader would compute more elements that they do not read than such that
  // they read.
  bool is_read_apart(int s, const StageInfo& info) const {
    constexpr double kMostPerRead = 2;
    return std::any_of(info.consumers.begin(), info.consumers.end(), [&](int c) {
      return dag_.info(c).case_periods.empty() && computed_per_read(dag_, s, c) > kMostPerRead;
    });
  }

  // Whether the rows of a group on a CPU would compute the same elements of a stage again and again,
  // as of a vector that all rows read.
  bool repeats_in_rows(int s, const StageGroup& g) const {
    return cpu_ &&
           !recomputation(dag_, s, followed_.times_in_rows(s, g.output_stage), rates_).pays();
  }

  // Whether computing the elements of a stage where they are read costs no more than storing them.
  // Notes how often they are computed there.
  bool pays_again(int s, const StageInfo& info) {
    double evaluations = 0, carried = 0;
    for (const int c : info.consumers) {
      const StageInfo& reader = dag_.info(c);
      evaluations += static_cast<double>(reads_of(s, c).size()) * times_[c] *
                     static_cast<double>(reader.points * reader.reduce_points);
      if (inlined_[c]) carried = std::max(carried, carried_[c]);
    }
    const double times = evaluations / static_cast<double>(std::max<int64_t>(1, info.points));
    const Recomputation again = recomputation(dag_, s, times, rates_);
    if (!again.pays(carried)) return false;
    times_[s] = times;
    carried_[s] = carried + again.again_seconds;
    return true;
  }

  // The levels of the expressions around the reads of a stage, where its readers are inlined.
  int levels_below(const StageInfo& info) const {
    int levels = 0;
    for (const int c : info.consumers) {
      if (inlined_[c]) levels = std::max(levels, levels_[c]);
    }
    return levels;
  }

  // Whether several attentions read a stage that computes something, such as the mask of all layers
  // of a network.
  bool feeds_attentions(const StageInfo& info) const {
    if (info.reads.empty() || info.precomputable) return false;
    std::set<int> chains;
    for (const int c : info.consumers) chains.insert(fused_.of[c]);
    chains.erase(-1);
    return chains.size() > 1;
  }

  // Whether a program of rows reads a stage that is no part of it and is not computed where it is read.
  bool feeds_rows(int s, const StageInfo& info) const {
    const bool stored = dag_.stage(s).is_reduction() || info.flops_per_point > 0;
    return stored && std::any_of(info.consumers.begin(), info.consumers.end(), [&](int c) {
             return fused_.of[c] >= 0 && fused_.chains.at(fused_.of[c]).rows;
           });
  }

  // The same for the chains of a CPU.
  bool feeds_chains(const StageInfo& info, const std::set<int>& groups) const {
    return cpu_ && !info.reads.empty() &&
           std::count_if(groups.begin(), groups.end(), [&](int g) {
             return !groups_[static_cast<size_t>(g)].products.empty();
           }) > 1;
  }

  // Places a stage of `a`.
  void place_fused(int s, const FusedChains::Chain& a) {
    const int first = a.first;
    if (s == first && !(a.joins && joins_epilogue(s))) open(s);
    StageGroup& g = groups_[*group_of_[first].begin()];
    group_of_[s] = group_of_[first];
    if (s == a.sum) {
      g.anchor = s;
      g.anchor_class = dag_.info(s).stage_class;
    } else if (std::find(a.outer.begin(), a.outer.end(), s) != a.outer.end()) {
      inlined_[s] = 1;
      g.inlined.push_back(s);
    } else if (s != first) {
      inlined_[s] = 1;
      g.fused.push_back(s);
    }
  }

  // Whether the weighted sum is computed inside of a later stage, which reads it element by
  // element.
  bool joins_epilogue(int s) {
    const StageInfo& info = dag_.info(s);
    std::set<int> groups;
    for (int c : info.consumers) groups.insert(group_of_[c].begin(), group_of_[c].end());
    if (!dag_.stage(s).is_reduction() || info.is_output || groups.size() != 1) return false;
    if (!join_reduction(s, info, groups_[*groups.begin()])) return false;
    group_of_[s] = groups;
    return true;
  }

  RowChain& chain_of(const StageGroup& g) {
    return chains_.try_emplace(g.anchor, dag_, *cpu_, g.anchor, g.output_stage, which_chains_)
        .first->second;
  }

  bool in_chain(int s, const StageGroup& g) {
    return cpu_ && g.anchor_class == StageClass::ComplexReduction && chain_of(g).takes(s);
  }

  // Whether a stage of fewer elements than the group has, such as a number for each row, would keep a
  // product from the end of it. A kernel for GPUs has one of both, and storing the few elements costs
  // less than storing the product.
  bool keeps_product_out(const StageInfo& info, const StageGroup& g) const {
    return gpu_ && g.anchor == g.output_stage && info.points < dag_.info(g.output_stage).points &&
           follows_product(g.output_stage);
  }

  // Whether `s` is made of a product that nothing else reads, element by element.
  bool follows_product(int s) const {
    const std::vector<Access>& reads = dag_.info(s).reads;
    return std::any_of(reads.begin(), reads.end(), [&](const Access& a) {
      if (a.pattern != AccessPattern::Elementwise || a.producer < 0) return false;
      const StageInfo& info = dag_.info(a.producer);
      if (info.consumers.size() != 1 || info.is_output || !same_shape(a.producer, s)) return false;
      return info.stage_class == StageClass::ComplexReduction ||
             (inlined_[a.producer] && follows_product(a.producer));
    });
  }

  // Places a stage that is computed in blocks of the anchor, of a product or after one. The product
  // is computed within the last of the element-wise stages that follow it, and those between are
  // inlined.
  bool place_in_part(int s, const std::set<int>& groups) {
    StageGroup& g = groups_[*groups.begin()];
    if (!cpu_ || g.anchor_class != StageClass::ComplexReduction) return false;
    const ImageChain& images = images_.try_emplace(g.anchor, dag_, g.anchor).first->second;
    const StageGroup::Part* image = images.part_of(s);
    const StageGroup::Part* part = image != nullptr ? image : chain_of(g).part_of(s);
    if (part == nullptr) return false;
    group_of_[s] = groups;
    if (s == part->last) {
      g.tunable.push_back(s);
      (image != nullptr ? g.images : g.products).push_back(*part);
      if (image == nullptr) g.chain.push_back(s);
    } else if (s != part->product) {
      inlined_[s] = 1;
      copies_[s] = copies(s, dag_.info(s));
      g.inlined.push_back(s);
    }
    return true;
  }

  // Inlined stages that products read become operands of their groups, and so do those that the
  // products of a matrix read which is computed where it is reduced. So do, on GPUs, those that windows
  // slide over: a thread may keep its part of them.
  void find_operands() {
    std::set<int> operands;
    for (StageGroup& g : groups_) {
      std::vector<int> readers = g.tunable;
      readers.push_back(g.anchor);
      if (!g.fused.empty()) {
        if (const auto matrix = find_own_matrix(dag_, g.anchor)) {
          for (const ComputedMatrix::Product& p : matrix->products) readers.push_back(p.stage);
        }
      }
      for (const auto* parts : {&g.images, &g.products}) {
        for (const StageGroup::Part& part : *parts) readers.push_back(part.product);
      }
      for (int r : readers) {
        const bool product = dag_.info(r).stage_class == StageClass::ComplexReduction;
        for (int s : dag_.info(r).producers) {
          if (!inlined_[s] || fused_.of[s] >= 0) continue;
          if (!product && (cpu_ || !slides_over(r, s))) continue;
          g.operands.push_back(s);
          operands.insert(s);
        }
      }
    }
    for (StageGroup& g : groups_) {
      std::erase_if(g.inlined, [&](int s) { return operands.count(s) > 0; });
    }
  }

  // Whether reduction `r` reads stage `s` by overlapping windows.
  bool slides_over(int r, int s) const {
    const std::vector<Access>& reads = dag_.info(r).reads;
    return dag_.stage(r).is_reduction() &&
           std::any_of(reads.begin(), reads.end(),
                       [&](const Access& a) { return a.producer == s && !a.window_axes.empty(); });
  }

  // A stage by cases is computed one tile at a time: within the output stage where only
  // element-wise stages lie between, or in the tile of a reader by cases. Otherwise it is computed
  // whole.
  void place_cases(int s, const StageInfo& info, const std::set<int>& groups) {
    if (groups.size() != 1) return open(s);
    followed_.follow(s);
    StageGroup& g = groups_[*groups.begin()];
    if (g.anchor != g.output_stage || g.anchor_class != StageClass::DirectCompute) return open(s);
    if (elementwise_to_output_stage(s, g) && dag_.stage(s).num_outputs() == 1) {
      inlined_[s] = 1;
      group_of_[s] = groups;
      g.inlined.push_back(s);
      return;
    }
    const bool in_tile = std::all_of(info.consumers.begin(), info.consumers.end(), [&](int c) {
      return (c == g.output_stage || inlined_[c]) && !dag_.info(c).case_periods.empty();
    });
    if (!in_tile) return open(s);
    g.tunable.push_back(s);
    group_of_[s] = groups;
  }

  // Whether the stage reads several stages that are as large as itself. Its readers would load all
  // of these in its place, and in a chain of such stages (residual sums) more and more of them.
  bool reads_several(const StageInfo& info) const {
    const auto is_large = [&](const Access& a) {
      int64_t elements = 1;
      for (const int64_t e : a.tensor.extents()) elements *= e;
      return elements >= info.points && !dag_.info(a.producer).precomputable;
    };
    return info.flops_per_point > 0 &&
           std::count_if(info.reads.begin(), info.reads.end(), is_large) > 1;
  }

  // The number of copies of the body of `s` if it were inlined. x * sigmoid(x) doubles x, and a
  // chain of such stages doubles it again and again.
  double copies(int s, const StageInfo& info) {
    double n = 0;
    for (int c : info.consumers) {
      std::optional<LoadCounts>& loads = loads_[static_cast<size_t>(c)];
      if (!loads) loads = count_loads(dag_.stage(c).bodies());  // once for all that it reads
      const auto found = loads->find(&dag_.stage(s));
      n += (found == loads->end() ? 0 : found->second) * (inlined_[c] ? copies_[c] : 1);
    }
    return n;
  }

  // Whether constant stage `s` transposes for a reader whose operands all lie along its vectors, as
  // those of a depthwise convolution do. Nothing is packed there. Kernels for GPUs pack nothing, so
  // weights that are laid for any reduction are stored too.
  bool read_by_strides(int s) const {
    const Axis* last = dag_.stage(s).axes().empty() ? nullptr : &dag_.stage(s).axes().back();
    const std::vector<Access>& reads = dag_.info(s).reads;
    if (!last || reads.size() != 1 || reads[0].affine.empty() || !reads[0].affine.back() ||
        reads[0].affine.back()->coefficient(last->var()) == 1)
      return false;
    const std::vector<int>& consumers = dag_.info(s).consumers;
    return std::any_of(consumers.begin(), consumers.end(), [&](int c) {
      const Operation& op = dag_.stage(c);
      if (!op.is_reduction() || op.axes().empty()) return false;
      if (gpu_) return true;
      return std::all_of(dag_.info(c).reads.begin(), dag_.info(c).reads.end(),
                         [&](const Access& a) { return a.depends_on(op.axes().back()); });
    });
  }

  // Reads of `s` by `consumer`.
  std::vector<const Access*> reads_of(int s, int consumer) const {
    std::vector<const Access*> out;
    for (const Access& a : dag_.info(consumer).reads) {
      if (a.producer == s) out.push_back(&a);
    }
    return out;
  }

  // Whether recomputing the stage for each reader costs less than storing it and reading it back.
  bool inlinable(int s, const StageInfo& info) const {
    bool moves_only = info.flops_per_point == 0;
    for (int c : info.consumers) {
      // Every point of an unrolled tile would have the guards.
      if (!dag_.info(c).case_periods.empty() && has_guard(s)) return false;
      bool complex = dag_.info(c).stage_class == StageClass::ComplexReduction;
      for (const Access* a : reads_of(s, c)) {
        // The operand of a contraction is read many times, so only a change of index costs nothing
        // there.
        if (complex && (!moves_only || has_guard(s) || !all_affine(s))) return false;
        bool repeated = !a->reuse_axes.empty() || dag_.stage(c).is_reduction() ||
                        a->pattern == AccessPattern::Opaque;
        if (info.transcendentals_per_point > 0 && repeated && reread(*a, c)) return false;
      }
    }
    if (info.transcendentals_per_point > 0 && info.consumers.size() > 1) return false;
    return info.flops_per_point <= kMaxInlineFlops || info.consumers.size() == 1;
  }

  // Whether consumer `c` evaluates one element of this read more than once.
  bool reread(const Access& a, int c) const {
    if (!a.reuse_axes.empty() || !a.window_axes.empty() || a.pattern == AccessPattern::Opaque)
      return true;
    return std::any_of(dag_.stage(c).reduce_axes().begin(), dag_.stage(c).reduce_axes().end(),
                       [&](const Axis& k) { return k.extent() > 1 && !a.depends_on(k); });
  }

  bool has_guard(int s) const {
    for (const Access& a : dag_.info(s).reads) {
      if (a.guarded) return true;
    }
    return false;
  }
  bool all_affine(int s) const {
    for (const Access& a : dag_.info(s).reads) {
      if (a.pattern == AccessPattern::Opaque) return false;
    }
    return true;
  }

  // Whether every reader of `s` is inlined or the output stage itself, and reads element by
  // element.
  bool elementwise_to_output_stage(int s, const StageGroup& g) const {
    if (dag_.stage(s).num_outputs() != 1 && !dag_.stage(s).is_reduction()) return false;
    for (int c : dag_.info(s).consumers) {
      if (c != g.output_stage && !inlined_[c]) return false;
      for (const Access* a : reads_of(s, c)) {
        if (a->pattern != AccessPattern::Elementwise) return false;
      }
      if (c != g.output_stage && !elementwise_to_output_stage(c, g)) return false;
    }
    return same_shape(s, g.output_stage) || is_padded_product(s, g.output_stage);
  }
  // Whether `s` is a product for matrix units of which stage `part` takes the first elements of
  // each axis, a little fewer than all.
  bool is_padded_product(int s, int part) const {
    constexpr int64_t kMostGrowth = 8;  // an axis grows by at most an eighth
    if (!has_matrix_units_ || dag_.info(s).stage_class != StageClass::ComplexReduction)
      return false;
    const auto narrow = [](const Access& a) { return a.tensor.dtype().bytes() < 4; };
    const std::vector<Access>& reads = dag_.info(s).reads;
    const auto &all = dag_.stage(s).axes(), &some = dag_.stage(part).axes();
    return std::all_of(reads.begin(), reads.end(), narrow) &&
           std::equal(all.begin(), all.end(), some.begin(), some.end(),
                      [](const Axis& a, const Axis& b) {
                        return b.extent() <= a.extent() &&
                               (a.extent() - b.extent()) * kMostGrowth <= b.extent();
                      });
  }
  bool same_shape(int a, int b) const {
    const auto &x = dag_.stage(a).axes(), &y = dag_.stage(b).axes();
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const Axis& p, const Axis& q) { return p.extent() == q.extent(); });
  }

  bool join_reduction(int s, const StageInfo& info, StageGroup& g) {
    bool direct_output = g.anchor == g.output_stage && g.anchor_class == StageClass::DirectCompute;
    if (direct_output && g.tunable.empty() && elementwise_to_output_stage(s, g)) {
      g.anchor = s;
      g.anchor_class = info.stage_class;
      return true;
    }
    // A GPU reads rows that a weight multiplies element by element as it reads others.
    const bool streams =
        info.stage_class == StageClass::SimpleReduction || (gpu_ && streams_operands(dag_, s));
    if (streams && direct_output && along_rows(s, g)) {
      g.tunable.push_back(s);
      return true;
    }
    if (!in_chain(s, g)) return false;
    g.tunable.push_back(s);
    return true;
  }

  // Whether the reduction has one value for each row of the output stage: its axes are the leading
  // axes of the output stage, alone or followed by axes of extent 1 (keepdims).
  bool along_rows(int s, const StageGroup& g) const {
    const auto &own = dag_.stage(s).axes(), &output_stage = dag_.stage(g.output_stage).axes();
    if (output_stage.size() < 2 || own.empty()) return false;
    size_t i = 0;
    while (i < own.size() && i < output_stage.size() &&
           own[i].extent() == output_stage[i].extent() && i + 1 < output_stage.size())
      ++i;
    if (i == 0) return false;
    for (size_t d = i; d < own.size(); ++d) {
      if (own[d].extent() != 1) return false;
    }
    return row_reads_only(s, g, i);
  }

  // Whether every path from `s` to the output stage reads it at the leading indices of the output
  // stage.
  bool row_reads_only(int s, const StageGroup& g, size_t rows) const {
    for (int c : dag_.info(s).consumers) {
      if (!reads_own_rows(dag_, s, c, rows)) return false;
      if (c != g.output_stage && !row_reads_only(c, g, rows)) return false;
    }
    return true;
  }

  static constexpr double kMaxInlineFlops = 12;
  const ComputeDag& dag_;
  const Chains which_chains_;
  const Target* cpu_;
  const bool gpu_;
  const bool has_matrix_units_;  // of a GPU
  std::vector<StageGroup> groups_;
  std::vector<std::set<int>> group_of_;
  std::vector<char> inlined_;
  std::vector<char> unpacked_;  ///< inlined since they widen bits
  std::vector<double> copies_;
  std::vector<double> times_;    ///< that elements of an inlined stage are computed; 1 for others
  std::vector<double> carried_;  ///< seconds that an inlined stage, and those after it, take again
  const MachineRates rates_;
  std::vector<int> levels_;  ///< of the expression that inlining makes, down to this stage
  FollowedAxes followed_;
  std::vector<std::optional<LoadCounts>> loads_;  ///< of the bodies of a stage, where counted
  std::map<int, RowChain> chains_;                // keyed by the anchor
  std::map<int, ImageChain> images_;              // likewise
  const FusedChains fused_;
  static constexpr int64_t kMaxCopies = 16;
  static constexpr int kMostLevels = 512;
};

}  // namespace

std::vector<StageGroup> plan_groups(const ComputeDag& dag, const Target* target, Chains chains) {
  return Planner(dag, target, chains).run();
}

}  // namespace heddle
