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

#include "heddle/support/dtype.h"

namespace heddle {

/// The numbers of which a product of f32 is made, where they are shorter. Sums are in f32, of bytes
/// in i32.
struct OperandType {
  /// f16, bf16, f8e4m3, u8 or i8; f32: the product stays as declared. Of u8 and i8 the weights are
  /// i8.
  DataType type = f32;
  /// A number q of 8 bits stands for (q - zero) * scale in the operand that is computed at each
  /// call. Weights have a scale for each output channel, which follows from their values.
  float scale = 1;
  int zero = 0;       ///< of u8 and i8
  bool tf32 = false;  ///< of f32: both operands are rounded to 10 bits of mantissa

  /// Whether the product stays as declared.
  bool is_declared() const { return type == f32 && !tf32; }

  bool operator==(const OperandType&) const = default;
};
/// "bf16", "tf32", or with scale and zero "u8:0.0125:128".
std::string to_string(const OperandType& type);
/// Reads that text. A User error for other types, scales that are not positive, and zeros beyond the
/// type.
OperandType parse_operand_type(const std::string& text);

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
  bool precision = true;               ///< products of `types` are made of shorter numbers
  bool transpose_weights = true;       ///< GPUs: weights of products lie as their sums read them
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
  /// The numbers of single products by name, "precision@linear:1x1000#1" (NetworkChoice).
  std::map<std::string, OperandType> types = {};
  /// The largest error of the outputs under which `types` were chosen (choose_precision); 0: none.
  double tolerance = 0;

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
  /// "transpose_weights@768x2304" (depth and columns of the weights),
  /// "channels_last@56x56" (rows and columns of the images),
  /// "store@mul:1x56x56x96" (a stage that is stored, and not computed where it is read),
  /// "fuse@pad:1x58x58x96" (a stage that is computed in the nodes that read it, and is no node),
  /// "recompute@relu:1x56x56x96" (a result that is computed again for later readers),
  /// "precision@conv2d:1x64x56x56#2" (the second product of this shape is made of shorter numbers).
  /// Names do not depend on names of tensors in a file.
  std::string name;
  std::string text;    ///< what is so when it is on
  int places = 0;      ///< the number of places
  bool usual = false;  ///< the setting without PassOptions::choices
  bool on = false;
  /// Whether results are the same but for rounding in the types of the declaration, and no memory
  /// grows as the square of a size. Tuning does not touch other choices.
  bool exact = true;
};

/// `base` as a list of names changes it: "-join_products,-fold_views" turns two off, "fold_views"
/// turns one on, "none" turns all off, "all" turns all on. "-channels_last@7x7" turns a single
/// choice off, "memory=64M" limits the buffers between nodes (K, M and G are powers of 1024),
/// "precision@matmul:*=bf16" sets the numbers of products, and "tolerance=0.01" says for which error
/// they were chosen. A User error for an unknown name.
PassOptions parse_passes(const std::string& list, PassOptions base = {});
/// The list that parse_passes reads as these options; empty for the default.
std::string to_string(const PassOptions& options);

/// One change that a pass made.
struct PassApplication {
  std::string pass, text;
};

}  // namespace heddle
