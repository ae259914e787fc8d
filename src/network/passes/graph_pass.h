// The passes over the graph of a network, each in a file of its name with a picture of before and
// after.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/network/passes.h"
#include "heddle/target/target.h"
#include "network/passes/choice_list.h"

namespace heddle::network {

/// The input of a pass.
struct PassContext {
  const ComputeDag& dag;
  const Target& target;
  const PassOptions& options;
  const char* name;                   ///< of the pass
  bool enabled;                       ///< the setting of the pass as a whole
  ChoiceList& choices;                ///< asked for the setting of each place
  std::vector<PassApplication>& log;  ///< changes are appended

  /// Appends a change of this pass, as one sentence.
  void changed(std::string text) const { log.push_back({name, std::move(text)}); }
};

// Each pass returns the outputs of the new graph in the same order, or the outputs of the graph
// itself where it changes nothing. Placeholders remain the same objects.
std::vector<Tensor> fold_constants(const PassContext& context);
/// The part of fold_constants about masks of attention that are computed from positions. It runs once, before the
/// others.
std::vector<Tensor> masks_of_positions(const PassContext& context);
std::vector<Tensor> fold_movers(const PassContext& context);
/// The part of fold_movers that joins several movers into one, which exposes views.
std::vector<Tensor> join_movers(const PassContext& context);
/// The part of fold_movers about results that are copies of what other stages read.
std::vector<Tensor> drop_copies(const PassContext& context);
std::vector<Tensor> fold_views(const PassContext& context);
/// The part of fold_views about transposes of short dimensions behind products of GPUs.
std::vector<Tensor> fold_short_transposes(const PassContext& context);
/// The part about results of GPUs' products that are read along another dimension than their last one.
std::vector<Tensor> last_as_read(const PassContext& context);
std::vector<Tensor> drop_taps(const PassContext& context);
std::vector<Tensor> fold_scales(const PassContext& context);
std::vector<Tensor> factors_after_products(const PassContext& context);
/// The part of factors_after_products about sums that are equal but for factors.
std::vector<Tensor> share_sums(const PassContext& context);
/// The part about means and variances of columns, which GPUs sum in one pass.
std::vector<Tensor> one_pass_moments(const PassContext& context);
/// The part about stages behind sums that compute the same.
std::vector<Tensor> join_equal(const PassContext& context);
std::vector<Tensor> move_bytes(const PassContext& context);
std::vector<Tensor> integer_products(const PassContext& context);
std::vector<Tensor> guards_after_products(const PassContext& context);
std::vector<Tensor> unflatten_sums(const PassContext& context);
std::vector<Tensor> join_products(const PassContext& context);
std::vector<Tensor> precision(const PassContext& context);
std::vector<Tensor> transpose_weights(const PassContext& context);
std::vector<Tensor> channels_last(const PassContext& context);
/// The part of horizontal about filters that are inputs.
std::vector<Tensor> pack_filters(const PassContext& context);
/// The part of horizontal about outputs of one shape, such as what an optimiser updates.
std::vector<Tensor> join_outputs(const PassContext& context);

/// A part of the passes: those from the first one of the name `from` on that run before the first one
/// of the name `until`. Empty names: from the beginning, to the end.
struct PassRange {
  std::string from = {}, until = {};
};

/// The graph after all passes that are on, as a whole or at some places, or after a part of them.
/// Descriptions of their changes are appended to `log`.
ComputeDag run_passes(const ComputeDag& declared, const Target& target, const PassOptions& options,
                      ChoiceList& choices, std::vector<PassApplication>& log,
                      const PassRange& range = {});

/// The graph before all passes, which may have sizes: with what needs no inputs, and masks of positions, in their
/// readers.
ComputeDag with_positions(const ComputeDag& declared, const Target& target,
                          const PassOptions& options, std::vector<PassApplication>& log);

/// The options with all passes off.
PassOptions without_passes(PassOptions options);

}  // namespace heddle::network
