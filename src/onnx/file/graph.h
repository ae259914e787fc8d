// An ONNX model as plain structures, after protobuf has read it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/onnx/import.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::onnx {

struct Graph;

/// A graph inside a node, such as the body of a Loop. It may read the names of the graphs around it.
using Subgraph = std::shared_ptr<const Graph>;
/// The value of an attribute.
using AttributeValue =
    std::variant<std::monostate, int64_t, float, std::string, NDArray, std::vector<int64_t>,
                 std::vector<float>, std::vector<std::string>, Subgraph>;

struct Attribute {
  AttributeValue value;
  std::string reference;  ///< in a function's body: the name of the function's attribute
};

struct Node {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;  ///< "" where an optional one is left out
  std::map<std::string, Attribute> attributes;
  int64_t opset = 0;  ///< version of its domain

  /// "node 'conv1' (Conv)"
  std::string describe() const;
};

struct Dimension {
  int64_t extent = -1;  ///< -1: not known
  std::string name;     ///< "" for none
};

struct ValueInfo {
  std::string name;
  int32_t type = 0;  ///< a TensorProto::DataType; 0: no tensor
  bool has_shape = false;
  std::vector<Dimension> shape;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::map<std::string, NDArray> initializers;
  std::set<std::string> four_bits;  ///< initialisers of integers of 4 bits, which have 8 here
  std::vector<ValueInfo> inputs, outputs;
};

/// A local function: a graph of which each call is a copy.
struct Function {
  std::string name, domain;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Attribute> defaults;  ///< of its attributes
  std::vector<Node> nodes;
};

struct Model {
  std::string path;
  int64_t ir_version = 0;  ///< of the file's format
  Graph graph;
  std::vector<Function> functions;
};

/// The type for TensorProto::DataType `type`. Throws a User error that begins with `what` where
/// Heddle has no such type.
DataType dtype_of(int32_t type, const std::string& what);

/// The type that stands here for integers of 4 bits, where `type` is of those.
std::optional<DataType> four_bits_of(int32_t type);

/// Reads and checks a file. Messages name it `path`.
Model read_model(const std::string& path);
/// The same from memory, which is copied where needed. External data are searched for in `folder`.
Model parse_model(const std::string& bytes, const std::string& path);

/// Replaces calls of local functions by their bodies until none is left.
void inline_functions(Model& model);

/// The graphs inside a node: attributes whose value is a Subgraph.
std::vector<Subgraph> graphs_in(const Node& node);
/// The names that the graphs inside a node read and do not make. Graphs around the node make them.
std::set<std::string> captured_names(const Node& node);

/// The nodes that the outputs of a graph depend on, in their order, which is that of order_nodes.
std::vector<const Node*> needed_nodes(const Graph& graph);

/// Sorts the nodes so that each comes after those it reads from, in the graphs inside nodes too. A
/// value that no node or two nodes make, and a cycle, are User errors with the names of the nodes.
void order_nodes(Model& model);

/// The node for which each operation of an import was declared: "node 'conv1' (Conv)".
using NodeNames = std::map<const Operation*, std::string>;

/// Data that the imports of one file at several sizes share.
struct ImportNotes {
  NodeNames names;  ///< names of the operations of this import
  /// Values that were too large to be computed at import at some size, or that are not the beginning
  /// of their values at a larger one. They are then not computed at any size.
  std::set<std::string> unfolded;
  /// Known arrays, and the same in a narrower type, by the address of their elements and their shape.
  std::map<std::pair<const void*, Extents>, std::pair<NDArray, NDArray>> narrow;
  std::set<std::string> folded;  ///< results of nodes that were computed at import
  /// Those that grow evenly at the largest sizes, and are declared as formulas, and those that do not.
  std::map<std::string, bool> even;
  /// The number of steps of recurrent nodes and scans at the size that was imported first, and those nodes
  /// whose number differs between sizes. They are loops at all sizes.
  std::map<std::string, int64_t> steps;
  std::set<std::string> looped;
};

/// The rest of import_onnx.
OnnxModel import_model(Model model, const OnnxOptions& options, Where where);
/// The same of a checked model, with its nodes in order, where all extents are numbers. `notes` may
/// be null. Messages do not name the file.
OnnxModel import_constant(Model model, const OnnxOptions& options, Where where, ImportNotes* notes);
/// The same for OnnxOptions::ranges.
OnnxModel import_ranges(const Model& model, const OnnxOptions& options, Where where);
/// The model with states (OnnxOptions::states). Throws a User error where it has none.
OnnxModel with_states(OnnxModel model, const OnnxOptions& options);
/// Whether the sequences of a decoder have rows of their own number: OnnxOptions::each_sequence.
inline bool with_own_lengths(const DecoderSizes& sizes) {
  return sizes.blocks.rows > 0 || (sizes.each_sequence && sizes.batch > 1);
}

}  // namespace heddle::onnx
