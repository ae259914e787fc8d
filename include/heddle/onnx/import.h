// ONNX files as declarations.
//
//   OnnxModel model = import_onnx("resnet50.onnx", {.dims = {{"batch", 1}}});
//   Network net(model.outputs);
//   NetworkKernel run = net.build(model.args());
//   run.call(model.arrays({image}, {scores}));
//
//   OnnxModel any = import_onnx("bert.onnx", {.ranges = {{"seq", dim("seq", 1, 512)}}});
//
//   OnnxModel decoder = import_onnx("gpt2.onnx", decoder_options("gpt2.onnx"));
//   Network step(decoder.outputs, Target::host(), {}, {}, decoder.updates);
//
// Opsets 11 to 28 are supported; older operators work where their meaning is the same. Shapes are
// fixed at import, or known up to the sizes of `ranges`. Nodes that depend on shapes alone are
// evaluated there. The file is mapped into memory, and weights are used in place wherever they are
// aligned to their type.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/dsl/dim.h"
#include "heddle/dsl/tensor.h"
#include "heddle/dsl/update.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

/// Blocks of a common memory for the rows of several sequences (ops/paged.h).
struct RowBlocks {
  int64_t rows = 0;   ///< of a block; 0: each sequence has a part of the states for itself
  int64_t count = 0;  ///< 0: as many as all sequences need at their largest
};

/// Options of import_onnx().
struct OnnxOptions {
  /// The extents of dimensions that the file names ("batch"). A dimension with neither name nor
  /// extent is called "INPUT:DIMENSION", such as "x:0".
  std::map<std::string, int64_t> dims = {};
  /// Dimensions of the file whose sizes a call gives. The model is then one declaration over them
  /// (dsl/dim.h). It is imported at some sizes, and generalize derives the declaration from these.
  /// Throws a User error that names the node where that is not possible.
  std::map<std::string, Dim> ranges = {};
  /// Dimensions that are sums of others of the file: {"total", {"past", "seq"}}.
  std::map<std::string, std::vector<std::string>> sums = {};
  /// Whether inputs that an output repeats, with rows behind them, become states that calls update
  /// in place: the past and present keys and values of a decoder. The dimension of their rows is a
  /// range, `past`; its place takes the length of all rows, `total`, a dimension of 1 to the largest
  /// past and rows. A state has room for these, and has them first: (total, batch, heads, depth).
  bool states = false;
  /// With `states`: whether each sequence of a batch has rows of its own number. The batch is the first
  /// dimension of past and present, with a constant extent. The model has two more inputs, of i64 and
  /// (batch): OnnxModel::lengths and OnnxModel::tokens. A call stores the last tokens(b) rows of sequence
  /// b at rows lengths(b) - tokens(b) to lengths(b) - 1 of its part of the states, and its rows end where
  /// those of all sequences do: row `total` - lengths(b) of present is its first. What is before that
  /// is hidden by the model's own mask, or by its last positions (seqlens_k of GroupQueryAttention), which
  /// are lengths(b) - 1.
  bool each_sequence = false;
  /// With `each_sequence`: states are blocks that sequences share, (blocks, rows of a block, heads, depth), and the
  /// model has one more input, OnnxModel::table. Row r of sequence b is row r % `rows` of block
  /// table(b, r / `rows`). An entry that is no block is not written, and reads the nearest one.
  RowBlocks blocks = {};
  /// The extent of the first dimension of every input, in place of that of the file; 0 keeps the
  /// file's. Throws a User error that names the nodes of a file that contain the exported extent,
  /// such as the shape of a Reshape.
  int64_t batch = 0;
  /// Whether recurrent layers, scans and loops of many steps, or of a number that is a range, are loops of the network
  /// (dsl/repeat.h), which OnnxModel::updates has: give it to Network. Without it they are unrolled.
  bool loops = false;
  /// The type of values between inputs and outputs: f32, f16 or bf16. Inputs and outputs remain
  /// f32. Sums, norms and softmax are always computed in f32. Constants beyond the range of the
  /// type become its largest value.
  DataType precision = f32;
};

/// An output whose number of rows the data decides, such as that of NonMaxSuppression. The output has as
/// many rows as it can have, and another output, of the name "NAME:count" and type i64, tells how many of
/// them are results.
struct OnnxOpenOutput {
  int output = 0;  ///< its number among the outputs
  int axis = 0;    ///< the dimension of the rows
  int count = 0;  ///< the number of the output that counts them; these come after those of the file
};

/// A model as a declaration.
struct OnnxModel {
  std::string path;
  /// In the file's order; inputs that no output depends on are left out.
  std::vector<Tensor> inputs, outputs;
  std::vector<std::string> input_names, output_names;
  std::vector<std::string> unread;           ///< the names of the inputs that are left out
  std::vector<OnnxOpenOutput> open_outputs;  ///< those of `outputs` with an open number of rows
  std::vector<Dim> dims;                     ///< those of OnnxOptions::ranges, in their order
  /// Of OnnxOptions::states and OnnxOptions::loops, for Network. The states are among the inputs, and their
  /// results are no outputs.
  Updates updates;
  /// Inputs of OnnxOptions::each_sequence, else undefined: the rows of each sequence with those of the
  /// call, and those of the call.
  Tensor lengths, tokens;
  /// Of OnnxOptions::blocks, else undefined: the blocks of each sequence in order, (batch, most blocks) of i32.
  Tensor table;
  /// Of OnnxOptions::states: whether the positions of rows follow from the past alone, since every attention
  /// of the file with a past turns its rows by them (GroupQueryAttention with do_rotary).
  bool own_positions = false;
  /// The initialisers that the outputs depend on. They have their values (`constant`), so they are
  /// not arguments.
  std::vector<Tensor> constants;

  /// Inputs, then outputs, which is the order for Network::build.
  std::vector<Tensor> args() const;
  /// Their names in the file, in the same order: for export_network.
  std::vector<std::string> arg_names() const;
  /// The arrays of a call in the same order.
  std::vector<NDArray> arrays(const std::vector<NDArray>& inputs,
                              const std::vector<NDArray>& outputs) const;
};

/// Reads a model. A fault of the file, its data or a node is a User error that names the file and
/// the node. Unsupported operators are reported all at once. External data must be in the folder of
/// the model or below it.
OnnxModel import_onnx(const std::string& path, const OnnxOptions& options = {},
                      Where where = Where::current());

/// The lengths for which a decoder is imported.
struct DecoderSizes {
  int64_t capacity = 1024;  ///< tokens of a sequence
  int64_t rows = 64;        ///< the most tokens of one call
  int64_t batch = 1;
  /// Whether the sequences of a batch may differ in length (OnnxOptions::each_sequence). Where they do not,
  /// rows are read without a look at lengths.
  bool each_sequence = true;
  RowBlocks blocks = {};  ///< OnnxOptions::blocks, for batches of any size
};
/// The options that make a decoder with states of a file: which of its dimensions are the past, the
/// tokens of a call, both and the batch follows from the inputs that its outputs repeat with rows
/// behind them. Throws a User error for a file that has none, and where the past is no open dimension.
OnnxOptions decoder_options(const std::string& path, const DecoderSizes& sizes = {},
                            Where where = Where::current());

/// Whether this build can read ONNX files (it was built with protobuf).
bool onnx_available();

/// An operator of ONNX, or of another domain.
struct OnnxOperator {
  std::string name;
  bool supported = false;
  std::string domain = {};  ///< "" for ONNX's own
};
/// All operators of ONNX's default domain by name, then those of other domains that are supported.
std::vector<OnnxOperator> onnx_operators();

}  // namespace heddle
