#include "network/fusion/plan_fusion.h"

#include <algorithm>
#include <array>
#include <utility>

#include "heddle/dag/computed_matrix.h"
#include "ir/linear.h"
#include "network/fusion/fuse_matrices.h"
#include "network/fusion/lookups.h"
#include "network/passes/equal_sums.h"
#include "network/passes/product_chain.h"
#include "schedule/groups/image_chain.h"
#include "schedule/groups/recomputation.h"
#include "schedule/groups/row_chain.h"

namespace heddle::network {
namespace {

class Planner {
 public:
  Planner(const ComputeDag& dag, const std::vector<StageGroup>& groups, const Target& target,
          const InPlacePlan& in_place)
      : dag_(dag), target_(target), parts_(in_place.parts), rates_(rates_of(target)), plan_(dag) {
    for (const StageGroup& g : groups) {
      // Of matrices choose_matrices decides; an attention and a program of rows have one template.
      const bool matrix = !g.fused.empty() && find_own_matrix(dag, g.anchor);
      for (const int s : g.fused) {
        if (!matrix) plan_.set(s, Place::InTemplate);
        if (matrix && is_product(s)) of_matrices_.push_back(s);
      }
      plan_.set(g.output_stage, Place::Stored);
      if (g.anchor != g.output_stage) epilogues_.push_back({g.anchor, g.output_stage});
      images_.insert(images_.end(), g.images.begin(), g.images.end());
    }
    for (const int s : in_place.wholes) plan_.set(s, Place::Whole);
  }

  FusionPlan run(ChoiceList& choices, bool at_all_sizes) {
    choose_matrices(choices, at_all_sizes);
    choose_images(choices);
    const std::vector<int> given_away = choose_sums(choices);
    for (const auto& [anchor, last] : epilogues_) plan_.keep_between(anchor, last);
    for (int s = dag_.size() - 1; s >= 0; --s) {
      if (plan_.at(s) != Place::Stored || dag_.info(s).is_output || dag_.info(s).precomputable)
        continue;
      if (dag_.stage(s).num_outputs() == 1 && !gives_away_sum(s, choices)) plan_.extend(s);
    }
    for (const int s : given_away) {
      if (plan_.is_free(s)) plan_.set(s, Place::Stored);  // the other product could not take it
    }
    for (const int s : parts_) plan_.set(s, Place::PartOfWhole);
    choose_by_rules(choices);
    return std::move(plan_);
  }

 private:
  /// Matrices of products are computed in the nodes that reduce them, or stored once.
  void choose_matrices(ChoiceList& choices, bool at_all_sizes) {
    FusedMatrices fused;
    if (!at_all_sizes) fused = fuse_matrices(plan_, target_, choices);
    for (const int s : of_matrices_) {
      if (plan_.is_free(s) && (fused.sums.empty() || !fused.inside[s])) plan_.set(s, Place::Stored);
    }
    if (fused.sums.empty()) return;
    std::erase_if(epilogues_, [&](const auto& e) { return fused.inside[e.first] != 0; });
    for (int s = 0; s < dag_.size(); ++s) {
      if (fused.inside[s]) plan_.set(s, Place::FusedByChoice);
    }
    for (const int s : fused.sums) {
      const bool joined = std::any_of(epilogues_.begin(), epilogues_.end(),
                                      [&](const auto& e) { return e.first == s; });
      if (!joined) plan_.set(s, Place::Stored);
    }
  }

  /// A convolution whose image only one other reads ends a node, or is computed in blocks of its
  /// reader.
  void choose_images(ChoiceList& choices) {
    std::sort(images_.begin(), images_.end(),
              [](const auto& a, const auto& b) { return a.product < b.product; });
    for (const StageGroup::Part& part : images_) {
      if (!choices.on(ChoiceKind::Fuse, place_of(dag_.stage(part.product)), leaves_cache(part),
                      "it is computed in blocks of the convolution that reads it"))
        plan_.set(part.product, Place::Stored);
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
           bytes >= kShareOfL2 * static_cast<double>(target_.l2_bytes);
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
      const bool waits = target_.is_cuda() && behind_equal_sums(dag_, anchor) >= 0;
      const int end = waits ? anchor : before_sum(anchor, choices, true);
      if (end < 0) continue;
      given_away.push_back(last);
      plan_.set(last, Place::InReaders);
      plan_.set(end, Place::ClosedByChoice);
      last = end;
    }
    return given_away;
  }

  /// The same for a product whose node has not been extended. Returns whether it ends earlier.
  bool gives_away_sum(int s, ChoiceList& choices) {
    const int behind = target_.is_cuda() ? behind_equal_sums(dag_, s) : -1;
    if (behind >= 0) {
      plan_.set(s, Place::ClosedByChoice);
      if (!plan_.is_free(behind)) return true;
      plan_.set(behind, Place::Stored);
      plan_.extend(behind);
      return true;
    }
    const int end = is_product(s) ? before_sum(s, choices, false) : -1;
    if (end < 0) return false;
    plan_.set(s, Place::InNode);
    plan_.keep_between(s, end);
    plan_.set(end, Place::ClosedByChoice);
    return true;
  }

  /// The last stage of a product's node before a sum with an earlier product that is stored, where
  /// the choice is to end there; else -1. `of_groups`: nodes are the groups of plan_groups still,
  /// from which a sum may be taken away.
  int before_sum(int product, ChoiceList& choices, bool of_groups) const {
    for (int at = product; is_private(dag_, at);) {
      const int reader = dag_.info(at).consumers[0];
      if ((!of_groups && !plan_.is_free(reader)) || dag_.info(reader).is_output ||
          !follows(dag_, reader, at))
        return -1;
      const std::vector<int>& reads = dag_.info(reader).producers;
      const bool meets = std::any_of(reads.begin(), reads.end(), [&](int p) {
        const std::vector<int> chain = p == at ? std::vector<int>{} : chain_to(dag_, p);
        return !chain.empty() && plan_.stored(chain[0]) && chain[0] < product;
      });
      if (meets) {
        return choices.on(ChoiceKind::Store, place_of(dag_.stage(at)), false,
                          "another product computes the sum")
                   ? at
                   : -1;
      }
      at = reader;
    }
    return -1;
  }

  /// A choice about a stage that is taken once all nodes are known.
  struct Rule {
    ChoiceKind kind;
    /// The stage that names the choice where it is one about the stage; else -1.
    int (Planner::*subject)(int) const;
    bool (Planner::*usual)(int) const;
    const char* text;
  };

  void choose_by_rules(ChoiceList& choices) {
    static constexpr std::array<Rule, 6> kRules = {
        {{ChoiceKind::Store, &Planner::read_by_product, &Planner::stores_usually,
          "it is stored, and not computed where it is read"},
         {ChoiceKind::Store, &Planner::norm_beside_operand, &Planner::always,
          "it is stored, and not computed where it is read"},
         {ChoiceKind::Store, &Planner::joined_for_windows, &Planner::always,
          "it is stored, and windows do not choose between what it joins"},
         {ChoiceKind::Store, &Planner::packed_filter, &Planner::always,
          "it is stored, and no kernel of a product copies it"},
         {ChoiceKind::Fuse, &Planner::ends_cheap_node, &Planner::never,
          "it is computed in the nodes that read it"},
         {ChoiceKind::Fuse, &Planner::product_of_chain, &Planner::never,
          "it is computed in blocks of rows of the product that reads it"}}};
    std::vector<int> store, fuse;
    for (int s = 0; s < dag_.size(); ++s) {
      for (const Rule& rule : kRules) {
        const int subject = (this->*rule.subject)(s);
        if (subject >= 0 &&
            choices.on(rule.kind, place_of(dag_.stage(subject)), (this->*rule.usual)(s), rule.text))
          (rule.kind == ChoiceKind::Store ? store : fuse).push_back(s);
      }
    }
    for (const int s : fuse) plan_.set(s, Place::FusedByChoice);
    for (const int s : store) {
      if (ends_norm(s)) take_reductions(s);
      plan_.set(s, Place::Stored);
      plan_.extend(s);
    }
  }

  // ---- stages that are computed in the node of a product that reads them ----

  int read_by_product(int s) const {
    if (plan_.stored(s) || !plan_.may_run_inside(s) || is_of_image(s) ||
        plan_.at(s) == Place::FusedByChoice)
      return -1;
    const std::vector<int>& readers = dag_.info(s).consumers;
    if (is_product(s)) {
      const bool before_another =
          std::any_of(readers.begin(), readers.end(), [&](int r) { return leads_on(r); });
      return before_another ? s : -1;
    }
    const bool read =
        !dag_.stage(s).is_reduction() &&
        (dag_.info(s).flops_per_point > 0 || chooses_by_data(s) || looks_up(dag_, s)) &&
        plan_.times_in_products(s) > 0;
    return read ? s : -1;
  }

  /// On a GPU a product whose operand is plain loads it without computing anything, and the end of
  /// a norm is one kernel with its reductions. On a CPU the sums of the gradient of a filter read an
  /// element again for each row of taps, and a stage that chooses by data, such as the gradient of
  /// pooling, would choose again each time, as a gather would look up again.
  bool stores_usually(int s) const {
    if (!target_.is_cuda())
      return (chooses_by_data(s) && is_reused(s)) ||
             times_looked_up(plan_, s) > Recomputation::kFreely;
    return target_.is_cuda() && plan_.at(s) != Place::InTemplate &&
           (ends_norm(s) || computed_too_often(s));
  }

  /// Whether `s` selects by conditions on what it reads.
  bool chooses_by_data(int s) const {
    return any_below(dag_.stage(s).bodies()[0], [](const Expr& e) {
      const Select* select = e.as<Select>();
      return select && has_load(select->condition);
    });
  }

  /// Whether a product uses an element of `s` along several axes of its result.
  bool is_reused(int s) const {
    return std::ranges::any_of(dag_.info(s).consumers, [&](int r) {
      return is_product(r) && std::ranges::any_of(dag_.info(r).reads, [&](const Access& a) {
               return a.producer == s && a.reuse_axes.size() > 1;
             });
    });
  }

  /// `s`, where it ends a norm on a GPU of which an operand of a product is made, such as bytes, and something
  /// else reads it, as the sum of a residual does. The sums of its rows have one node for both.
  int norm_beside_operand(int s) const {
    const std::vector<int>& readers = dag_.info(s).consumers;
    const bool several = target_.is_cuda() && readers.size() > 1 && plan_.is_free(s) &&
                         plan_.may_run_inside(s) && plan_.at(s) != Place::InTemplate;
    const bool beside = several && std::ranges::any_of(readers, [&](int r) {
                          return dag_.info(r).points == dag_.info(s).points &&
                                 plan_.times_in_products(r) > 0 && ends_norm(r);
                        });
    return beside && read_by_product(s) < 0 && ends_norm(s) ? s : -1;
  }

  bool never(int) const { return false; }
  bool always(int) const { return true; }

  /// `s`, where windows of a convolution on a GPU read it and it moves elements of several tensors, as a
  /// concat of channels does. A plain operand is copied by the memory unit; here each thread would
  /// choose the source of each element, once for each element of the window.
  int joined_for_windows(int s) const {
    const StageInfo& info = dag_.info(s);
    const bool joins = target_.is_cuda() && info.flops_per_point == 0 &&
                       info.producers.size() > 1 && dag_.stage(s).num_outputs() == 1 &&
                       !dag_.stage(s).is_reduction();
    return joins && !plan_.stored(s) && plan_.may_run_inside(s) && plan_.times_in_products(s) > 1
               ? s
               : -1;
  }

  /// `s`, where it rounds and packs an input of the network for products on a GPU.
  int packed_filter(int s) const {
    const StageInfo& info = dag_.info(s);
    const bool packs =
        target_.is_cuda() && info.reads.size() == 1 && info.flops_per_point == 0 &&
        info.reads[0].producer >= 0 && !info.precomputable &&
        info.reads[0].pattern == AccessPattern::Injective &&
        dag_.stage(info.reads[0].producer).is_placeholder() &&
        dag_.stage(s).output(0).dtype().bytes() < info.reads[0].buffer->dtype.bytes() &&
        !dag_.stage(s).is_reduction() && dag_.stage(s).num_outputs() == 1 &&
        std::ssize(dag_.stage(s).axes()) == 4;
    return packs && !plan_.stored(s) && plan_.may_run_inside(s) &&
                   std::ranges::any_of(info.consumers, [&](int r) { return is_product(r); })
               ? s
               : -1;
  }

  /// Whether a product reads `s`, or a stage after it in its node.
  bool leads_on(int s) const {
    if (is_product(s)) return true;
    if (plan_.stored(s)) return false;
    const std::vector<int>& readers = dag_.info(s).consumers;
    return std::any_of(readers.begin(), readers.end(), [&](int r) { return leads_on(r); });
  }

  /// Whether `s` reads reductions of rows of `row` elements, as the end of a layer norm does.
  bool normalises(int s, int64_t row) const {
    const std::vector<int>& reads = dag_.info(s).producers;
    return !dag_.stage(s).is_reduction() && std::any_of(reads.begin(), reads.end(), [&](int p) {
      return dag_.info(p).points * row == dag_.info(s).points &&
             (is_row_sum(p) || (plan_.may_run_inside(p) && follows_row_sum(p)));
    });
  }
  /// `s`, and the stages before it of as many points that may be computed with it, where `takes` says so.
  std::vector<int> with_stages_before(int s, FunctionRef<bool(int)> takes) const {
    constexpr size_t kMostStages = 32;
    std::vector<int> out{s};
    for (size_t next = 0; next < out.size() && out.size() < kMostStages; ++next) {
      for (const int p : dag_.info(out[next]).producers) {
        const bool inside = takes(p) && plan_.may_run_inside(p) && !dag_.stage(p).is_reduction() &&
                            dag_.info(p).points == dag_.info(s).points;
        if (inside && std::find(out.begin(), out.end(), p) == out.end()) out.push_back(p);
      }
    }
    return out;
  }
  /// The same of those that are computed wherever `s` is, element by element.
  std::vector<int> with_stages_before(int s) const {
    return with_stages_before(s, [&](int p) { return plan_.is_free(p); });
  }

  /// Whether `s`, or a stage before it that is computed with it, normalises the rows of the last axis
  /// of `s`. On a GPU that is one kernel with its reductions, and a product that reads it has a plain
  /// operand. Sums over more, as those of an instance norm, want kernels of their own: a row of the
  /// result has too few threads for them.
  bool ends_norm(int s) const {
    if (dag_.stage(s).is_reduction() || dag_.stage(s).axes().empty()) return false;
    const int64_t row = dag_.stage(s).axes().back().extent();
    const std::vector<int> stages = with_stages_before(s);
    return row > 1 &&
           std::any_of(stages.begin(), stages.end(), [&](int p) { return normalises(p, row); });
  }

  /// Whether products compute `s`, with the stages before it, so often that storing it costs less.
  bool computed_too_often(int s) const {
    const double times = plan_.times_in_products(s);
    double before = 0;
    for (const int p : with_stages_before(s)) {
      if (p != s) before += recomputation(dag_, p, times, rates_).again_seconds;
    }
    return !recomputation(dag_, s, times, rates_).pays(before);
  }

  bool is_row_sum(int s) const {
    return dag_.info(s).stage_class == StageClass::SimpleReduction && plan_.may_run_inside(s);
  }
  /// Whether `s` is computed of the sum of a row, as sqrt(sum / n + epsilon) is.
  bool follows_row_sum(int s) const {
    if (dag_.stage(s).is_reduction()) return false;
    const std::vector<int> stages = with_stages_before(s, [](int) { return true; });
    return std::any_of(stages.begin(), stages.end(), [&](int p) {
      const std::vector<int>& reads = dag_.info(p).producers;
      return std::any_of(reads.begin(), reads.end(), [&](int r) { return is_row_sum(r); });
    });
  }

  /// Joins the reductions that `s` alone needs, and what lies between, to the node of `s`.
  void take_reductions(int s) {
    std::vector<char> needed(static_cast<size_t>(dag_.size()));
    needed[s] = 1;
    for (int p = s - 1; p >= 0; --p) {
      const std::vector<int>& readers = dag_.info(p).consumers;
      const bool of_rows = dag_.info(p).points < dag_.info(s).points;
      if (!plan_.may_run_inside(p) || is_product(p) || (!plan_.is_free(p) && !of_rows) ||
          plan_.at(p) >= Place::PartOfWhole || ends_product(p) ||
          !std::all_of(readers.begin(), readers.end(), [&](int r) { return needed[r] != 0; }))
        continue;
      needed[p] = 1;
      if (plan_.stored(p)) plan_.set(p, Place::InNode);
    }
  }

  /// Whether `s` ends a node that computes a product.
  bool ends_product(int s) const {
    if (!plan_.stored(s)) return false;
    const std::vector<int> stages = plan_.stages_of_node(s);
    return std::any_of(stages.begin(), stages.end(), [&](int p) { return is_product(p); });
  }

  // ---- nodes that their readers may compute ----

  /// Whether `s` ends a node that sums up nothing, and recomputing it for its readers is cheap.
  int ends_cheap_node(int s) const {
    if (!ends_node_of_its_own(s) || sums_up(s)) return -1;
    const std::vector<int>& readers = dag_.info(s).consumers;
    if (readers.size() > 2 || (readers.size() == 2 && !is_cheap(s))) return -1;
    const bool into_whole = std::any_of(readers.begin(), readers.end(),
                                        [&](int r) { return plan_.at(r) == Place::Whole; });
    return into_whole ? -1 : s;
  }

  bool ends_node_of_its_own(int s) const {
    return plan_.stored(s) && plan_.at(s) < Place::PartOfWhole && plan_.may_run_inside(s);
  }

  bool is_cheap(int s) const { return dag_.info(s).transcendentals_per_point == 0; }

  bool sums_up(int s) const {
    const std::vector<int> stages = plan_.stages_of_node(s);
    return std::any_of(stages.begin(), stages.end(), [&](int p) {
      return !dag_.info(p).precomputable && (dag_.stage(p).is_reduction() || dag_.info(p).scan);
    });
  }

  /// The product whose node ends at `end`, where one other product alone reads it and may compute
  /// its rows block by block; else -1.
  int product_of_chain(int end) const {
    if (target_.is_cuda() || !ends_node_of_its_own(end) || is_of_image(end)) return -1;
    const std::vector<int>& readers = dag_.info(end).consumers;
    if (readers.size() != 1 || !is_product(readers[0])) return -1;
    int product = end;
    while (product >= 0 && !(is_product(product) && plan_.may_run_inside(product) &&
                             plan_.end_of_node(product) == end))
      --product;
    if (product < 0) return -1;
    std::vector<char> stored = plan_.stored_stages();
    stored[end] = 0;
    const RowChain chain(dag_, target_, readers[0], plan_.end_of_node(readers[0]), Chains::Possible,
                         stored);
    return chain.takes(end) && chain.takes(product) ? product : -1;
  }

  bool is_product(int s) const { return plan_.is_product(s); }

  const ComputeDag& dag_;
  const Target& target_;
  const std::vector<int>& parts_;         ///< of concats that share memory with them
  std::vector<StageGroup::Part> images_;  ///< that other convolutions may compute in blocks
  std::vector<int> of_matrices_;          ///< products that groups reduce where they are computed
  /// Pairs of a reduction and the output stage of its group.
  std::vector<std::pair<int, int>> epilogues_;
  const MachineRates rates_;
  FusionPlan plan_;
};

}  // namespace

FusionPlan plan_fusion(const ComputeDag& dag, const std::vector<StageGroup>& groups,
                       const Target& target, const InPlacePlan& in_place, ChoiceList& choices,
                       bool at_all_sizes) {
  return Planner(dag, groups, target, in_place).run(choices, at_all_sizes);
}

}  // namespace heddle::network
