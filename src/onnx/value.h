// The value of a name of the graph: a declared tensor, an array that is known at import, a sequence
// of values, or an optional that has none.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/support/function_ref.h"

namespace heddle::onnx {

/// A known array, and the constant placeholder that stands for it once a declaration reads it.
struct Constant {
  std::string name;
  NDArray array;
  Tensor tensor;
  bool four_bits = false;  ///< integers of 4 bits in the file, which have 8 here
  bool formula = false;    ///< declarations read integers that grow evenly, which need no memory
};

/// Tells of a tensor that only its first elements along a dimension are results. How many there are depends
/// on the inputs of the model.
struct OpenRows {
  int axis = 0;
  Tensor count;  ///< i64 of rank 0
};

class Value {
 public:
  Value() = default;
  Value(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  explicit Value(std::shared_ptr<Constant> constant) : constant_(std::move(constant)) {}
  /// A sequence. The number of its elements is always known.
  static Value sequence(std::vector<Value> elements);
  /// An optional without a value. One that has a value is that value.
  static Value nothing();

  /// A tensor with an open number of rows.
  static Value with_rows(const Tensor& tensor, OpenRows rows);

  bool defined() const { return is_array() || elements_ != nullptr || nothing_; }
  /// Whether it is a tensor or a known array. The functions below need that.
  bool is_array() const { return tensor_ || constant_ != nullptr; }
  /// The rows of a tensor that has an open number of them, else null.
  const OpenRows* rows() const { return rows_.get(); }
  bool is_nothing() const { return nothing_; }
  bool is_sequence() const { return elements_ != nullptr; }
  const std::vector<Value>& elements() const { return *elements_; }
  /// The value with `f` of each array in place of it, with the same rows.
  Value map_arrays(FunctionRef<Value(const Value&)> f) const;
  bool known() const { return constant_ != nullptr; }
  const NDArray& array() const { return constant_->array; }
  DataType dtype() const { return known() ? array().dtype() : tensor_.dtype(); }
  Extents shape() const { return known() ? array().shape() : tensor_.extents(); }
  int64_t size() const;
  /// A known array is read through a constant placeholder. An array of one element is written into
  /// the expressions that read it. An array without elements is a User error.
  Tensor tensor() const;
  /// Whether a known array has integers that grow evenly along each dimension, as positions do.
  bool grows_evenly() const;
  /// The same array, which declarations read as a formula of its indices. It grows evenly.
  Value as_formula() const;
  /// Whether its integers have 4 bits in the file. They have 8 here.
  bool is_of_four_bits() const { return known() ? constant_->four_bits : four_bits_; }
  static Value of_four_bits(Tensor tensor);
  /// Whether the value is known and has one element, which is then `immediate()`.
  bool is_immediate() const { return known() && array().size() == 1; }
  Expr immediate() const;

 private:
  Tensor tensor_;
  std::shared_ptr<Constant> constant_;
  std::shared_ptr<const std::vector<Value>> elements_;
  std::shared_ptr<const OpenRows> rows_;
  bool nothing_ = false, four_bits_ = false;
};

/// The constants of an import, in the order in which they were made.
class ConstantPool {
 public:
  /// An array that was added before is the same constant, as those in the body of a loop are.
  Value add(NDArray array, std::string name, bool four_bits = false);
  const std::vector<std::shared_ptr<Constant>>& all() const { return constants_; }

 private:
  std::vector<std::shared_ptr<Constant>> constants_;
  std::map<const void*, std::shared_ptr<Constant>> by_data_;
};

/// The elements of an array of integers.
std::vector<int64_t> integers_of(const NDArray& array);
NDArray array_of_integers(const std::vector<int64_t>& values, Extents shape);

}  // namespace heddle::onnx
