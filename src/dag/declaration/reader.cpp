// Reads a declaration from JSON. The form is described in dag/declaration/declaration.h.
//
// All input is checked. Nodes are made by the constructors of expressions and reductions, and
// operations by those of the DSL, with all their checks. In addition, a node must come out as it
// was written: not folded, and with no constant of another type.
#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dag/declaration/declaration.h"
#include "dag/declaration/form.h"
#include "dsl/validate.h"
#include "heddle/dsl/dim.h"
#include "heddle/ir/print.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

using namespace dag;

[[noreturn]] void fail(const std::string& why) { throw_user_error(why); }

/// Runs `read`. Errors that it throws name `part`.
template <class F>
auto in(const std::string& part, F read) {
  try {
    return read();
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    throw_user_error(part + ": " + e.message, {}, e.help);
  }
}

size_t position(const Json& j, size_t size, const char* what) {
  const int64_t value = j.as_int();
  if (value < 0 || static_cast<size_t>(value) >= size) {
    fail("there is no " + std::string(what) + " " + std::to_string(value) + " here, but " +
         std::to_string(size));
  }
  return static_cast<size_t>(value);
}

/// The elements of a list. Throws where there are more than `most`.
const std::vector<Json>& limited(const Json& list, size_t most, const char* what) {
  if (list.elements().size() > most)
    fail("there are more than " + std::to_string(most) + " " + what);
  return list.elements();
}

DataType scalar_type(const Json& j) {
  const std::optional<DataType> type = parse_dtype(j.as_string());
  if (!type || !type->is_scalar()) fail("'" + j.as_string() + "' is no type of a scalar");
  return *type;
}

/// The nodes of one list, by number.
class NodeReader {
 public:
  /// Reads the kinds of nodes that depend on the place of the list: axes, loads, reductions. Null
  /// for other kinds.
  using Leaf = std::function<Expr(const std::string& kind, const Json& node)>;
  explicit NodeReader(Leaf leaf) : leaf_(std::move(leaf)) {}

  void read(const Json& list) {
    for (const Json& j : list.elements()) {
      if (nodes_.size() >= kMostNodes)
        fail("there are more than " + std::to_string(kMostNodes) + " nodes");
      in("node " + std::to_string(nodes_.size()), [&] { add(j); });
    }
  }
  const Expr& at(const Json& number) {
    const size_t i = position(number, nodes_.size(), "node");
    below_ = std::max(below_, heights_[i]);
    chain_ = std::max(chain_, chains_[i]);
    return nodes_[i];
  }
  /// Notes that the current node reads the last operation of a chain of this length.
  void reads(int chain) { chain_ = std::max(chain_, chain); }
  /// The length of the longest chain that ends in `numbers`.
  int chain_of(const Json& numbers) {
    chain_ = 0;
    (void)all(numbers);
    return chain_;
  }
  std::vector<Expr> all(const Json& numbers) {
    std::vector<Expr> out;
    for (const Json& n : limited(numbers, kMostNodes, "operands")) out.push_back(at(n));
    return out;
  }

 private:
  void add(const Json& j) {
    if (!j.is_array() || j.size() == 0) fail("a node is [kind, ...]");
    below_ = chain_ = 0;
    Expr e = make(j);
    if (below_ >= kDeepestExpression) {
      fail("it is nested deeper than " + std::to_string(kDeepestExpression) + " levels");
    }
    nodes_.push_back(std::move(e));
    heights_.push_back(below_ + 1);
    chains_.push_back(chain_);
  }

  static void expect_size(const Json& j, size_t size) {
    if (j.size() != size) {
      fail("a node of kind '" + j.at(0).as_string() + "' has " + std::to_string(size) +
           " parts, not " + std::to_string(j.size()));
    }
  }

  Expr make(const Json& j) {
    const std::string& kind = j.at(0).as_string();
    if (kind == "int" || kind == "float") {
      expect_size(j, 3);
      return kind == "int" ? integer(j) : floating(j);
    }
    if (kind == "cast") {
      expect_size(j, 3);
      const Expr value = at(j.at(2));
      const DataType type = scalar_type(j.at(1));
      return as_written(cast(type, value), ExprKind::Cast, {value}, type);
    }
    if (kind == "unary") {
      expect_size(j, 3);
      const std::optional<UnaryOp> op = parse_unary(j.at(1).as_string());
      if (!op) fail("'" + j.at(1).as_string() + "' is no unary operator");
      const Expr a = at(j.at(2));
      Expr e = as_written(make_unary(*op, a), ExprKind::Unary, {a});
      if (e.as<Unary>()->op != *op) not_as_written(e);
      return e;
    }
    if (kind == "binary") {
      expect_size(j, 4);
      const std::optional<BinaryOp> op = parse_binary(j.at(1).as_string());
      if (!op) fail("'" + j.at(1).as_string() + "' is no binary operator");
      const Expr a = at(j.at(2)), b = at(j.at(3));
      Expr e = as_written(make_binary(*op, a, b), ExprKind::Binary, {a, b});
      if (e.as<Binary>()->op != *op) not_as_written(e);
      return e;
    }
    if (kind == "select") {
      expect_size(j, 4);
      const Expr c = at(j.at(1)), t = at(j.at(2)), f = at(j.at(3));
      return as_written(make_select(c, t, f), ExprKind::Select, {c, t, f});
    }
    Expr e = leaf_ ? leaf_(kind, j) : Expr();
    if (!e.defined()) fail("there is no kind of node '" + kind + "' here");
    return e;
  }

  static Expr integer(const Json& j) {
    const DataType type = scalar_type(j.at(1));
    if (!type.is_integral()) fail("an integer of type " + to_string(type));
    const int64_t value = j.at(2).as_int();
    Expr e = make_int(type, value);
    if (e.as<IntImm>()->value != value)
      fail(std::to_string(value) + " is no value of " + to_string(type));
    return e;
  }

  static Expr floating(const Json& j) {
    const DataType type = scalar_type(j.at(1));
    if (!type.is_float()) fail("a floating-point number of type " + to_string(type));
    double value = 0;
    if (j.at(2).is_string()) {
      const std::optional<uint64_t> bits = parse_hex64(j.at(2).as_string());
      if (!bits) fail("'" + j.at(2).as_string() + "' are not the sixteen digits of a number");
      value = std::bit_cast<double>(*bits);
    } else {
      value = j.at(2).as_double();
    }
    Expr e = make_float(type, value);
    if (std::bit_cast<uint64_t>(e.as<FloatImm>()->value) != std::bit_cast<uint64_t>(value))
      fail(j.at(2).dump() + " is no value of " + to_string(type));
    return e;
  }

 public:
  [[noreturn]] static void not_as_written(const Expr& e) {
    fail("what is written here comes out as '" + to_string(e) + "'");
  }
  /// Returns `e` if it has that kind and exactly these parts.
  static Expr as_written(Expr e, ExprKind kind, const std::vector<Expr>& parts,
                         std::optional<DataType> type = {}) {
    bool same = e.kind() == kind && (!type || e.dtype() == *type);
    size_t i = 0;
    if (same) {
      for_each_child(e, [&](const Expr& child) {
        same = same && i < parts.size() && child.same_as(parts[i]);
        ++i;
      });
    }
    if (!same || i != parts.size()) not_as_written(e);
    return e;
  }

 private:
  Leaf leaf_;
  std::vector<Expr> nodes_;
  std::vector<int> heights_, chains_;
  int below_ = 0, chain_ = 0;  ///< maxima over the operands of the current node
};

/// A built-in reduction, or a user's.
struct ReadReducer {
  std::optional<ReduceKind> builtin;
  std::optional<Reducer> custom;
};

ReadReducer read_reducer(const Json& j) {
  ReadReducer out;
  if (const Json* builtin = j.find("builtin")) {
    out.builtin = parse_builtin(builtin->as_string());
    if (!out.builtin) fail("'" + builtin->as_string() + "' is no built-in reduction");
    return out;
  }
  std::vector<DataType> types;
  for (const Json& t : limited(j.at("types"), 256, "components")) types.push_back(scalar_type(t));
  NodeReader constants(nullptr);
  constants.read(j.at("identity"));
  Json numbers = Json::array();
  for (size_t i = 0; i < j.at("identity").size(); ++i) numbers.push_back(i);
  const auto combine = [&](const std::vector<Expr>& lhs, const std::vector<Expr>& rhs) {
    NodeReader nodes([&](const std::string& kind, const Json& node) {
      if (kind == "lhs") return lhs[position(node.at(1), lhs.size(), "component")];
      if (kind == "rhs") return rhs[position(node.at(1), rhs.size(), "component")];
      return Expr();
    });
    nodes.read(j.at("nodes"));
    return nodes.all(j.at("result"));
  };
  out.custom = reducer(j.at("name").as_string(), types, constants.all(numbers), combine,
                       j.at("commutative").as_bool(), Where{});
  return out;
}

class DeclarationReader {
 public:
  Declaration read(const Json& j) {
    if (const Json* sizes = j.find("sizes")) {
      for (const Json& s : limited(*sizes, kMostAxes, "sizes")) {
        in("size " + std::to_string(sizes_.size()), [&] { sizes_.push_back(size(s)); });
      }
    }
    for (const Json& a : limited(j.at("axes"), kMostAxes, "axes")) {
      in("axis " + std::to_string(axes_.size()), [&] { axes_.push_back(axis(a)); });
    }
    for (const Json& r : limited(j.at("reducers"), kMostOperations, "reducers")) {
      in("reducer " + std::to_string(reducers_.size()),
         [&] { reducers_.push_back(read_reducer(r)); });
    }
    for (const Json& o : limited(j.at("operations"), kMostOperations, "operations")) {
      in("operation " + std::to_string(operations_.size()), [&] { add_operation(o); });
    }
    const std::vector<Tensor> outputs = in("outputs", [&] { return tensors(j.at("outputs")); });
    ComputeDag dag = graph(outputs, "outputs");
    if (const Json* alternative = j.find("alternative")) {
      dag = in("alternative", [&] { return as_alternative(dag, *alternative); });
    }
    std::vector<Tensor> args = in("args", [&] { return tensors(j.at("args")); });
    for (const Tensor& t : args) {
      if (!t.op()->is_placeholder() && dag.index_of(t.op()) < 0 &&
          dag.direct().index_of(t.op()) < 0)
        fail("args: '" + t.name() + "' is not computed in the declaration");
    }
    return {std::move(dag), std::move(args)};
  }

 private:
  static Var size(const Json& j) {
    if (j.elements().size() != 3) fail("a size is [name, smallest, largest]");
    const Dim made = dim(j.at(0).as_string(), j.at(1).as_int(), j.at(2).as_int(), Where{});
    return made.variable();
  }

  Expr sum_of_sizes(const Json& j) {
    if (!j.is_array()) return Expr(j.as_int());
    if (j.size() < 2) fail("an extent is a number, or [constant, [size, factor]...]");
    Expr sum(0);
    for (size_t i = 1; i < limited(j, kMostAxes, "sizes").size(); ++i) {
      const Json& term = j.at(i);
      if (term.elements().size() != 2) fail("a term of an extent is [size, factor]");
      const Var& s = sizes_[position(term.at(0), sizes_.size(), "size")];
      sum = sum + s.expr() * Expr(term.at(1).as_int());
    }
    return sum + Expr(j.at(0).as_int());
  }

  Axis axis(const Json& j) {
    if (j.elements().size() != 3) fail("an axis is [name, extent, kind]");
    const std::string& name = j.at(0).as_string();
    const Expr extent = check_extent(sum_of_sizes(j.at(1)), "axis '" + name + "'", {});
    const std::string& kind = j.at(2).as_string();
    if (kind != "spatial" && kind != "reduce") fail("'" + kind + "' is no kind of axis");
    return Axis(name, extent, kind == "spatial" ? AxisKind::Spatial : AxisKind::Reduce);
  }

  std::vector<Axis> axis_list(const Json& list) {
    std::vector<Axis> out;
    for (const Json& j : limited(list, kMostAxes, "axes")) {
      out.push_back(axes_[position(j, axes_.size(), "axis")]);
    }
    return out;
  }

  Tensor tensor(const Json& operation, const Json& output) {
    const Ref<const Operation>& op =
        operations_[position(operation, operations_.size(), "operation")];
    const size_t i = position(output, static_cast<size_t>(op->num_outputs()), "output");
    return op->output(static_cast<int>(i));
  }
  std::vector<Tensor> tensors(const Json& list) {
    std::vector<Tensor> out;
    for (const Json& j : limited(list, kMostOperations, "tensors")) {
      if (j.elements().size() != 2) fail("a tensor is [operation, output]");
      out.push_back(tensor(j.at(0), j.at(1)));
    }
    return out;
  }

  void add_operation(const Json& j) {
    chain_ = 0;
    if (const Json* name = j.find("placeholder")) {
      Shape shape;
      for (const Json& e : limited(j.at("shape"), kMostAxes, "dimensions"))
        shape.push_back(sum_of_sizes(e));
      operations_.push_back(Operation::make_placeholder(std::move(shape), scalar_type(j.at("type")),
                                                        name->as_string(),
                                                        j.at("constant").as_bool(), Where{}));
    } else {
      operations_.push_back(compute(j));
    }
    if (chain_ >= kLongestChain) {
      fail("it ends a chain of more than " + std::to_string(kLongestChain) + " operations");
    }
    chains_.emplace(operations_.back().get(), chain_ + 1);
  }

  Ref<const Operation> compute(const Json& j) {
    std::vector<Axis> axes = axis_list(j.at("axes"));
    std::unordered_set<const AxisNode*> seen;
    for (const Axis& a : axes) {
      if (a->kind != AxisKind::Spatial) fail("'" + a.name() + "' is a reduce axis");
      if (!seen.insert(a.get()).second) fail("axis '" + a.name() + "' is there twice");
    }
    Shape shape;
    for (const Axis& a : axes) shape.push_back(a->extent);
    const std::string& name = j.at("compute").as_string();
    check_shape(shape, name, {});
    nodes_.read(j.at("nodes"));
    std::vector<Expr> bodies = nodes_.all(j.at("bodies"));
    chain_ = nodes_.chain_of(j.at("bodies"));
    return Operation::make_compute(name, std::move(axes), std::move(bodies),
                                   j.at("tag").as_string(), Where{});
  }
  Expr leaf(const std::string& kind, const Json& j) {
    if (kind == "axis") return axes_[position(j.at(1), axes_.size(), "axis")].var();
    if (kind == "size") return sizes_[position(j.at(1), sizes_.size(), "size")];
    if (kind == "load") {
      const std::vector<Expr> indices = nodes_.all(j.at(3));
      const Tensor from = tensor(j.at(1), j.at(2));
      nodes_.reads(chains_.at(from.op()));
      return NodeReader::as_written(from.at(indices), ExprKind::Load, indices);
    }
    if (kind != "reduce") return {};
    const ReadReducer& by = reducers_[position(j.at(1), reducers_.size(), "reducer")];
    const std::vector<Expr> sources = nodes_.all(j.at(2));
    if (sources.empty()) fail("a reduction of nothing");
    const size_t component = position(j.at(4), sources.size(), "component");
    std::vector<Axis> over = axis_list(j.at(3));
    Expr e;
    if (by.custom) {
      e = (*by.custom)(sources, std::move(over))[component];
    } else {
      if (sources.size() != 1) fail("a built-in reduction is of one value");
      e = builtin(*by.builtin, sources[0], std::move(over));
    }
    return NodeReader::as_written(e, ExprKind::Reduce, sources);
  }

  static Expr builtin(ReduceKind kind, const Expr& value, std::vector<Axis> over) {
    switch (kind) {
      case ReduceKind::Sum: return sum_in(value.dtype(), value, std::move(over));
      case ReduceKind::Prod: return prod_in(value.dtype(), value, std::move(over));
      case ReduceKind::Min: return reduce_min(value, std::move(over));
      case ReduceKind::Max: return reduce_max(value, std::move(over));
      case ReduceKind::Any: return any(value, std::move(over));
      case ReduceKind::All: return all(value, std::move(over));
      case ReduceKind::Custom: break;
    }
    return {};
  }

  /// An axis may belong to two operations of one graph only if both reduce over it.
  static ComputeDag graph(const std::vector<Tensor>& outputs, const std::string& part) {
    return in(part, [&] {
      ComputeDag dag(outputs);
      std::unordered_set<const AxisNode*> seen;
      for (int s = 0; s < dag.size(); ++s) {
        for (const Axis& a : dag.stage(s).axes()) {
          if (!seen.insert(a.get()).second)
            fail("axis '" + a.name() + "' is one of two operations, '" + dag.stage(s).name() +
                 "' and another");
        }
      }
      return dag;
    });
  }

  ComputeDag as_alternative(const ComputeDag& dag, const Json& j) {
    const auto alike = [](const Tensor& theirs, const Tensor& ours) {
      int64_t difference = 0;
      for (const auto& [t, sign] : {std::pair(theirs, 1), std::pair(ours, -1)}) {
        int64_t elements = 1;
        for (const int64_t e : t.extents()) elements *= e;
        difference += sign * elements;
      }
      if (difference != 0 || theirs.dtype() != ours.dtype())
        fail("'" + ours.name() + "' cannot stand for '" + theirs.name() + "'");
    };
    const std::string& name = j.at("name").as_string();
    if (name.empty()) fail("it has no name");
    const ComputeDag direct = graph(tensors(j.at("direct")), "direct");
    if (direct.outputs().size() != dag.outputs().size())
      fail("it has other outputs than the declaration");
    for (size_t i = 0; i < direct.outputs().size(); ++i)
      alike(direct.outputs()[i], dag.outputs()[i]);
    std::vector<std::pair<Tensor, Tensor>> placeholders;
    for (const Json& pair : limited(j.at("placeholders"), kMostOperations, "placeholders")) {
      const std::vector<Tensor> both = tensors(pair);
      if (both.size() != 2 || !both[0].op()->is_placeholder() || !both[1].op()->is_placeholder())
        fail("a placeholder stands for a placeholder");
      alike(both[0], both[1]);
      placeholders.emplace_back(both[0], both[1]);
    }
    return dag.as_alternative(name, direct, std::move(placeholders));
  }

  std::vector<Var> sizes_;
  std::vector<Axis> axes_;
  std::vector<ReadReducer> reducers_;
  std::vector<Ref<const Operation>> operations_;
  /// For each operation, the length of the longest chain of operations that it ends.
  std::unordered_map<const Operation*, int> chains_;
  int chain_ = 0;  ///< of the current operation
  NodeReader nodes_{[this](const std::string& kind, const Json& j) { return leaf(kind, j); }};
};

uint64_t digits(const Json& json, const char* key) {
  const std::optional<uint64_t> value = parse_hex64(json.at(key).as_string());
  if (!value) fail("'" + std::string(key) + "' is not sixteen hexadecimal digits");
  return *value;
}

}  // namespace

Declaration declaration_from_json(const Json& json) {
  return in("serialised declaration", [&] {
    if (!json.is_object() || json.get_string("format", "") != kDeclarationFormat)
      throw_user_error("this is no serialised declaration", {}, "declaration_to_json writes one");
    const int64_t version = json.at("version").as_int();
    if (version != kDeclarationVersion) {
      throw_user_error("it is of version " + std::to_string(version) + ", and this library reads " +
                           std::to_string(kDeclarationVersion),
                       {}, "use the same version of Heddle on both sides");
    }
    const Json& declaration = json.at("declaration");
    if (declaration_checksum(declaration) != digits(json, "checksum"))
      throw_user_error("its checksum is wrong", {}, "it was damaged, or changed by hand");
    Declaration out = DeclarationReader().read(declaration);
    if (out.dag.structural_hash() != digits(json, "structural_hash"))
      throw_user_error("it computes something else than what was written", {},
                       "use the same version of Heddle on both sides");
    return out;
  });
}

}  // namespace heddle
