// The interface of an operator to its node while it is declared: inputs, attributes and errors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/dsl/repeat.h"
#include "heddle/support/function_ref.h"
#include "onnx/file/graph.h"
#include "onnx/value.h"

namespace heddle::onnx {

/// What the importer does for operators that consist of other nodes.
class Declarer {
 public:
  /// The values of the outputs of a graph inside a node, for those of its inputs.
  virtual std::vector<Value> declare_graph(const Graph& graph,
                                           const std::vector<Value>& inputs) = 0;
  /// The same; nullopt, and no mistakes, where a node cannot be declared.
  virtual std::optional<std::vector<Value>> try_graph(const Graph& graph,
                                                      const std::vector<Value>& inputs) = 0;
  /// The outputs of a node of operator `op`, which stands for a part of `whole`.
  virtual std::vector<Value> declare_part(const Node& whole, const std::string& op,
                                          const std::vector<Value>& inputs,
                                          std::map<std::string, Attribute> attributes) = 0;
  /// How often the node was declared before in this import: in loops, the number of the iteration.
  virtual uint64_t turn_of(const Node& node) = 0;
  virtual const OnnxOptions& options() const = 0;
  /// A loop for the steps of this node; nullopt where they are unrolled.
  virtual std::optional<Recurrence> begin_loop(const Node& node, int64_t steps) = 0;
  /// Adds a loop whose parts are declared. Returns false, and does not, where a node of it would differ from
  /// turn to turn (turn_of).
  virtual bool end_loop(const Recurrence& loop) = 0;

 protected:
  ~Declarer() = default;
};

class NodeScope {
 public:
  /// `exact` are the inputs with the types of the file; `inputs` are those of the declarations,
  /// where f32 may have become the narrower type `real`.
  NodeScope(const Node& node, std::vector<Value> exact, std::vector<Value> inputs, DataType real,
            ConstantPool& pool, Declarer& declarer)
      : node_(node),
        exact_(std::move(exact)),
        inputs_(std::move(inputs)),
        real_(real),
        pool_(pool),
        declarer_(declarer) {}

  const Node& node() const { return node_; }
  int64_t opset() const { return node_.opset; }
  /// The place of the declarations, which is no line of C++.
  static constexpr Where at() { return {}; }
  /// Throws a User error. The importer adds the file and the node.
  [[noreturn]] void fail(const std::string& message, const std::string& help = {}) const;

  /// The type that replaces the file's f32.
  DataType real() const { return real_; }

  // ---- inputs ----
  int count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const;
  /// A missing input is a User error, and so is one that is no array.
  const Value& value(int i) const;
  /// An input of any kind. `exact` has the type of the file.
  const Value& any_value(int i) const;
  const Value& exact(int i) const;
  /// The elements of an input that is a sequence.
  const std::vector<Value>& sequence(int i) const;
  Tensor tensor(int i) const { return value(i).tensor(); }
  /// Undefined where the input is left out.
  Tensor optional_tensor(int i) const { return has(i) ? tensor(i) : Tensor(); }
  Extents shape(int i) const { return value(i).shape(); }
  int rank(int i) const { return static_cast<int>(value(i).shape().size()); }
  DataType dtype(int i) const { return value(i).dtype(); }
  /// An input whose elements must be known at import. `what` is its purpose, for messages.
  const NDArray& known(int i, const char* what) const;
  std::vector<int64_t> known_integers(int i, const char* what) const;
  int64_t known_integer(int i, const char* what) const;
  double known_number(int i, const char* what) const;

  // ---- attributes; one of another type is a User error ----
  bool has_attribute(const char* name) const { return find(name) != nullptr; }
  int64_t integer(const char* name, std::optional<int64_t> usual = {}) const;
  double number(const char* name, std::optional<double> usual = {}) const;
  std::string text(const char* name, std::optional<std::string> usual = {}) const;
  std::vector<int64_t> integers(const char* name, std::vector<int64_t> usual = {}) const;
  std::vector<float> numbers(const char* name) const;
  std::vector<std::string> texts(const char* name, std::vector<std::string> usual = {}) const;
  const Graph& graph(const char* name) const;
  const AttributeValue* find(const char* name) const;
  /// Integers that are an attribute in older opsets, and input `i` in newer ones.
  std::vector<int64_t> integers_of_input_or(int i, const char* name) const;
  /// `axis` of a tensor of `rank`, checked and not negative.
  int axis(int64_t axis, int rank) const;

  /// Those of the import.
  const OnnxOptions& options() const { return declarer_.options(); }
  /// How often the node was declared before, in an unrolled loop. Each call counts as a declaration.
  uint64_t turn() const { return declarer_.turn_of(node_); }

  /// A loop for the steps of this node, which end_loop() takes; nullopt where they are unrolled.
  std::optional<Recurrence> begin_loop(int64_t steps) const {
    return declarer_.begin_loop(node_, steps);
  }
  bool end_loop(const Recurrence& loop) const { return declarer_.end_loop(loop); }

  // ---- results ----
  Value constant(NDArray array) const;
  Value constant(const std::vector<int64_t>& values) const;  ///< of rank 1
  /// The outputs of a graph of this node.
  std::vector<Value> declare(const Graph& graph, const std::vector<Value>& inputs) const {
    return declarer_.declare_graph(graph, inputs);
  }
  /// The same; nullopt, and no mistakes, where a node cannot be declared.
  std::optional<std::vector<Value>> try_declare(const Graph& graph,
                                                const std::vector<Value>& inputs) const {
    return declarer_.try_graph(graph, inputs);
  }
  /// The first output of an operator of the default domain, as of opset 21.
  Value part(const std::string& op, const std::vector<Value>& inputs,
             std::map<std::string, Attribute> attributes = {}) const {
    return declarer_.declare_part(node_, op, inputs, std::move(attributes)).at(0);
  }
  /// `f` of the inputs' elements, broadcast; numbers known at import are constants in it. All
  /// inputs have one type, save the first `mixed` ones.
  Value elementwise(const std::string& name, FunctionRef<Expr(const std::vector<Expr>&)> f,
                    int mixed = 0) const;

 private:
  const Node& node_;
  std::vector<Value> exact_, inputs_;
  DataType real_;
  ConstantPool& pool_;
  Declarer& declarer_;
};

/// Declares the outputs of a node (trailing optional ones may be missing).
using Declare = std::vector<Value> (*)(const NodeScope&);

/// The dimension of the results whose rows are those of dimension `axis` of input `input`, each made of one
/// of them; -1 where there is none.
using Follow = int (*)(const NodeScope&, int input, int axis);

struct OperatorEntry {
  const char* name;
  Declare declare;
  Follow follow = nullptr;  ///< null: inputs with an open number of rows are refused
};

/// Follow of operators on elements, with broadcasting.
int follow_elements(const NodeScope& s, int input, int axis);

// The families of operators, each in a source file of its own.
std::vector<OperatorEntry> unary_operators();
std::vector<OperatorEntry> binary_operators();
std::vector<OperatorEntry> constant_operators();
std::vector<OperatorEntry> shape_operators();
std::vector<OperatorEntry> part_operators();
std::vector<OperatorEntry> convolution_operators();
std::vector<OperatorEntry> pool_operators();
std::vector<OperatorEntry> product_operators();
std::vector<OperatorEntry> normalization_operators();
std::vector<OperatorEntry> reduction_operators();
std::vector<OperatorEntry> lookup_operators();
std::vector<OperatorEntry> scatter_operators();
std::vector<OperatorEntry> recurrent_operators();
std::vector<OperatorEntry> quantize_operators();
std::vector<OperatorEntry> integer_product_operators();
std::vector<OperatorEntry> control_operators();
std::vector<OperatorEntry> sequence_operators();
std::vector<OperatorEntry> attention_operators();
std::vector<OperatorEntry> bounded_operators();
std::vector<OperatorEntry> fold_operators();
std::vector<OperatorEntry> linear_attention_operators();
std::vector<OperatorEntry> loss_operators();
std::vector<OperatorEntry> ngram_operators();
std::vector<OperatorEntry> random_operators();
std::vector<OperatorEntry> resize_operators();
std::vector<OperatorEntry> sample_operators();
std::vector<OperatorEntry> signal_operators();
// Those of com.microsoft.
std::vector<OperatorEntry> microsoft_attention_operators();
std::vector<OperatorEntry> microsoft_integer_product_operators();
std::vector<OperatorEntry> microsoft_norm_operators();
std::vector<OperatorEntry> microsoft_product_operators();
std::vector<OperatorEntry> microsoft_quantise_operators();
std::vector<OperatorEntry> microsoft_quantised_operators();
std::vector<OperatorEntry> microsoft_recurrent_operators();

/// All operators, by domain and name.
using OperatorTable = std::map<std::pair<std::string, std::string>, OperatorEntry>;
const OperatorTable& operator_table();
/// An operator, or null. The domain of ONNX's own operators is "".
const OperatorEntry* find_operator(const std::string& domain, const std::string& name);

/// "(2, 3)"
std::string shape_text(const Extents& shape);

}  // namespace heddle::onnx
