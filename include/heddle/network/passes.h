// Rewrites of a whole network before it is cut into tasks. They work on the graph of the
// declaration, so that networks of the DSL and networks from files get them alike.
//
//   Network net({logits}, Target::host(), {}, {.join_products = false});
//   for (const PassApplication& a : net.passes()) std::cout << a.pass << ": " << a.text << "\n";
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle {

/// Which passes run, in this order. A pass that is off leaves the network as the earlier passes
/// made it. `network_passes` describes each.
struct PassOptions {
  bool fold_constants = true;          ///< stages that read nothing are written into their readers
  bool fold_movers = true;             ///< transposes, slices and reshapes are read through
  bool fold_views = true;              ///< products are computed in the shape that their reader has
  bool factors_after_products = true;  ///< constant factors multiply results, not operands
  bool move_bytes = true;              ///< dequantised bytes that are moved and rounded stay bytes
  bool integer_products = true;        ///< products of dequantised bytes are products of bytes
  bool guards_after_products = true;   ///< GPUs: zeros of masked rows come after the product
  bool unflatten_sums = true;          ///< CPUs: sums over a flattened shape run over its axes
  bool drop_taps = true;               ///< windows leave out what reads padding alone
  bool fold_scales = true;             ///< batch norms go into constant weights and a bias
  bool join_products = true;           ///< products of one input are one
  bool channels_last = true;           ///< images have their channels innermost
  bool concat_in_place = true;         ///< parts of a concat are written where the whole lies
  bool slices_in_place = true;  ///< nodes that differ in the slice that they read are one task
  /// Over the nodes of the network, once their kernels are chosen.
  bool horizontal = true;
  /// The most bytes of the buffers between nodes; 0: any number. Where they would take more, results
  /// of nodes are computed again for later readers ("recompute@" of NetworkChoice).
  int64_t memory = 0;
  /// Settings of single choices by name (NetworkChoice), where they are not the usual ones.
  std::map<std::string, bool> choices = {};

  bool operator==(const PassOptions&) const = default;
};

/// A pass over the graph of a network, for `--passes` and reports.
struct PassDescription {
  std::string name;     ///< name of the field of PassOptions
  std::string summary;  ///< one sentence
  bool PassOptions::* enabled = nullptr;
  /// Whether every application gains. For other passes the gain is an estimate, and tuning tries
  /// them on the whole network (choose_passes).
  bool sure = true;
};

/// All passes in the order in which they run.
const std::vector<PassDescription>& network_passes();

/// A choice about some of a network's stages, which a pass or the cut into nodes takes. Places that
/// are alike (equal layers) are one choice.
struct NetworkChoice {
  /// Kind and place: "join_products@768x2304" (depth and columns of the joined product),
  /// "channels_last@56x56" (rows and columns of the images),
  /// "store@mul:1x56x56x96" (a stage that is stored, and not computed where it is read),
  /// "fuse@pad:1x58x58x96" (a stage that is computed in the nodes that read it, and is no node),
  /// "recompute@relu:1x56x56x96" (a result that is computed again for later readers).
  /// Names do not depend on names of tensors in a file.
  std::string name;
  std::string text;    ///< what is so when it is on
  int places = 0;      ///< the number of places
  bool usual = false;  ///< the setting without PassOptions::choices
  bool on = false;
};

/// `base` as a list of names changes it: "-join_products,-fold_views" turns two off, "fold_views"
/// turns one on, "none" turns all off, "all" turns all on. "-channels_last@7x7" turns a single
/// choice off, "memory=64M" limits the buffers between nodes (K, M and G are powers of 1024). A User
/// error for an unknown name.
PassOptions parse_passes(const std::string& list, PassOptions base = {});
/// The list that parse_passes reads as these options; empty for the default.
std::string to_string(const PassOptions& options);

/// One change that a pass made.
struct PassApplication {
  std::string pass, text;
};

}  // namespace heddle
