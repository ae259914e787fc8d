// If, Loop and Scan. Loops of many steps are loops of the network, others are unrolled.
#include <algorithm>
#include <cstring>
#include <optional>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"
#include "onnx/operators/graph_loop.h"

namespace heddle::onnx {
namespace {

// The largest number of iterations that are unrolled. Each has kernels of its own.
constexpr int64_t kMostIterations = 1024;
// The largest number of parts that one stage joins.
constexpr size_t kMostJoined = 64;

Attribute number(int64_t value) { return {value, ""}; }

bool is_same_array(const Value& a, const Value& b) {
  if (!a.known() || !b.known()) return false;
  const NDArray &x = a.array(), &y = b.array();
  return x.dtype() == y.dtype() && x.shape() == y.shape() &&
         (x.address() == y.address() ||
          std::memcmp(x.data(), y.data(), static_cast<size_t>(x.bytes())) == 0);
}

std::string kind_of(const Value& value) {
  if (value.is_sequence())
    return "a sequence of " + std::to_string(value.elements().size()) + " elements";
  if (value.is_nothing()) return "an optional without a value";
  return to_string(value.dtype()) + " " + shape_text(value.shape());
}

[[noreturn]] void fail_differing(const NodeScope& s, const Value& a, const Value& b,
                                 const std::string& name) {
  s.fail("'" + name + "' is " + kind_of(a) + " or " + kind_of(b) +
             ", by a condition that depends on the inputs of the model",
         "both must have one type and shape, or the condition must be known at import: fix the "
         "dimensions or the input that decide it");
}

/// `a` where the condition holds, else `b`. `name` is that of the value, for messages.
Value chosen(const NodeScope& s, const Tensor& condition, const Value& a, const Value& b,
             const std::string& name) {
  if (a.is_sequence() && b.is_sequence() && a.elements().size() == b.elements().size()) {
    std::vector<Value> elements;
    for (size_t i = 0; i < a.elements().size(); ++i)
      elements.push_back(chosen(s, condition, a.elements()[i], b.elements()[i], name));
    return Value::sequence(std::move(elements));
  }
  if (a.is_nothing() && b.is_nothing()) return a;
  if (!a.is_array() || !b.is_array()) fail_differing(s, a, b, name);
  if (a.rows() != nullptr || b.rows() != nullptr)
    s.fail("the number of elements of '" + name +
           "' depends on the inputs of the model, and so does "
           "its condition");
  if (is_same_array(a, b)) return a;
  if (a.shape() != b.shape()) fail_differing(s, a, b, name);
  const Tensor x = in_precision(s, a), y = in_precision(s, b);
  if (x.dtype() != y.dtype()) fail_differing(s, a, b, name);
  const Tensor flag = ops::reshape(condition, {}, s.at());
  return ops::where(flag, x, y, s.at());
}

/// The values as one tensor, joined along a new dimension at `axis`, or along that dimension.
Value joined(const NodeScope& s, std::vector<Value> parts, int64_t axis, bool is_new) {
  if (is_new) {
    for (Value& part : parts) part = s.part("Unsqueeze", {part, s.constant({axis})});
  }
  while (parts.size() > kMostJoined) {
    std::vector<Value> groups;
    for (size_t begin = 0; begin < parts.size(); begin += kMostJoined) {
      const size_t end = std::min(parts.size(), begin + kMostJoined);
      const auto at = [&](size_t i) { return parts.begin() + static_cast<std::ptrdiff_t>(i); };
      groups.push_back(
          s.part("Concat", std::vector<Value>(at(begin), at(end)), {{"axis", number(axis)}}));
    }
    parts = std::move(groups);
  }
  return s.part("Concat", parts, {{"axis", number(axis)}});
}

/// A result that no iteration adds to. Its shape is in the file or not known.
Value without_rows(const NodeScope& s, const ValueInfo& info) {
  Extents shape{0};
  for (const Dimension& dim : info.shape) shape.push_back(dim.extent);
  if (!info.has_shape || *std::min_element(shape.begin(), shape.end()) < 0)
    s.fail("it runs no iteration, so the shape of its result '" + info.name + "' is not known");
  return s.constant(NDArray::empty(shape, dtype_of(info.type, "'" + info.name + "'")));
}

void check_outputs(const NodeScope& s, const Graph& body, size_t least) {
  if (body.outputs.size() < least)
    s.fail("its graph has " + std::to_string(body.outputs.size()) +
           " outputs, and needs at least " + std::to_string(least));
}

// With a condition that is not known both branches are computed.
std::vector<Value> if_else(const NodeScope& s) {
  const Graph &yes = s.graph("then_branch"), &no = s.graph("else_branch");
  const Value& condition = s.value(0);
  if (condition.size() != 1 || !condition.dtype().is_bool())
    s.fail("its condition is " + kind_of(condition) + ", and needs to be one bool");
  if (condition.known()) return s.declare(condition.array().get(0) != 0 ? yes : no, {});
  const std::vector<Value> a = s.declare(yes, {}), b = s.declare(no, {});
  if (a.size() != b.size()) s.fail("its branches differ in the number of outputs");
  std::vector<Value> results;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::string name =
        i < s.node().outputs.size() ? s.node().outputs[i] : yes.outputs[i].name;
    results.push_back(chosen(s, condition.tensor(), a[i], b[i], name));
  }
  return results;
}

/// The iterations of a Loop: turns of a loop of the network, or unrolled. Where its condition depends on the inputs of the model, all that the
/// trip count allows are computed, and those after the end keep the values.
class LoopRun {
 public:
  explicit LoopRun(const NodeScope& s) : s_(s), body_(s.graph("body")) {
    going_ = s.has(1) ? s.value(1) : s.constant(NDArray::full({}, boolean, 1));
    if (going_.size() != 1 || !going_.dtype().is_bool())
      s.fail("its condition is " + kind_of(going_) + ", and needs to be one bool");
    if (s.has(0)) trips_ = std::max<int64_t>(0, s.known_integer(0, "trip count"));
    for (int i = 2; i < s.count(); ++i) carried_.push_back(s.exact(i));
    check_outputs(s, body_, 1 + carried_.size());
    rows_.resize(body_.outputs.size() - 1 - carried_.size());
  }

  std::vector<Value> run() {
    if (std::optional<std::vector<Value>> results = looped()) return *std::move(results);
    for (int64_t i = 0; trips_ < 0 || i < trips_; ++i) {
      if (going_.known() && going_.array().get(0) == 0) break;
      if (i == kMostIterations)
        s_.fail("it runs more than " + std::to_string(kMostIterations) +
                    " iterations, which are the most that are unrolled",
                "an operator over the whole sequence in place of the loop has no such limit");
      if (!going_.known()) check_open();
      step(i);
    }
    std::vector<Value> results = carried_;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const ValueInfo& info = body_.outputs[1 + carried_.size() + r];
      results.push_back(rows_[r].empty() ? without_rows(s_, info) : joined(s_, rows_[r], 0, true));
    }
    return results;
  }

 private:
  /// The results, where the iterations are turns of a loop: their number is known, and their conditions hold.
  /// Each reads its number as data.
  std::optional<std::vector<Value>> looped() const {
    if (trips_ < 1 || !going_.known() || going_.array().get(0) == 0) return std::nullopt;
    GraphLoop loop(s_, trips_);
    if (!loop.begun()) return std::nullopt;
    const Tensor numbers =
        compute({Expr(trips_)}, [](Axis i) { return cast(i64, i); }, "iterations", "", s_.at());
    std::vector<Value> inputs{loop.row(numbers, false), going_};
    std::vector<char> stays;
    for (size_t c = 0; c < carried_.size(); ++c) {
      stays.push_back(handed_on(body_, body_.outputs[1 + c].name) == body_.inputs[2 + c].name);
      if (!stays.back() && !is_plain(carried_[c])) return std::nullopt;
      inputs.push_back(stays.back() ? carried_[c] : loop.state(carried_[c]));
    }
    const std::optional<std::vector<Value>> made = s_.try_declare(body_, inputs);
    if (!made || !(*made)[0].is_array() || !(*made)[0].known() || (*made)[0].array().get(0) == 0)
      return std::nullopt;
    std::vector<Value> parts;
    for (size_t i = 1; i < made->size(); ++i) {
      if (i > stays.size() || !stays[i - 1]) parts.push_back((*made)[i]);
    }
    std::optional<std::vector<Value>> results = loop.results(parts, {});
    if (!results) return std::nullopt;
    for (size_t c = 0; c < carried_.size(); ++c) {
      if (stays[c]) results->insert(results->begin() + static_cast<std::ptrdiff_t>(c), carried_[c]);
    }
    return results;
  }

  void check_open() const {
    if (trips_ < 0)
      s_.fail("how often it runs depends on the inputs of the model",
              "a trip count that is known at import bounds it");
    if (!rows_.empty())
      s_.fail("the number of rows of its result '" + body_.outputs[1 + carried_.size()].name +
                  "' depends on the inputs of the model",
              "a condition that is known at import, or a trip count alone, fixes it");
  }

  void step(int64_t i) {
    std::vector<Value> inputs{s_.constant(array_of_integers({i}, {})), going_};
    inputs.insert(inputs.end(), carried_.begin(), carried_.end());
    const std::vector<Value> made = s_.declare(body_, inputs);
    for (size_t c = 0; c < carried_.size(); ++c) {
      Value& value = carried_[c];
      value = going_.known()
                  ? made[1 + c]
                  : chosen(s_, going_.tensor(), made[1 + c], value, body_.outputs[1 + c].name);
    }
    for (size_t r = 0; r < rows_.size(); ++r) rows_[r].push_back(made[1 + carried_.size() + r]);
    const Value& next = made[0];
    if (!next.is_array() || next.size() != 1 || !next.dtype().is_bool())
      s_.fail("the condition that its graph makes is no bool");
    if (going_.known() || (next.known() && next.array().get(0) == 0))
      going_ = next;
    else if (!next.known())
      going_ = ops::logical_and(ops::reshape(going_.tensor(), {}, s_.at()),
                                ops::reshape(next.tensor(), {}, s_.at()), s_.at());
  }

  const NodeScope& s_;
  const Graph& body_;
  int64_t trips_ = -1;  ///< -1: as often as the condition holds
  Value going_;
  std::vector<Value> carried_;
  std::vector<std::vector<Value>> rows_;
};

std::vector<Value> loop(const NodeScope& s) { return LoopRun(s).run(); }

/// A list attribute with one value for each of `count` inputs or outputs.
std::vector<int64_t> each(const NodeScope& s, const char* name, size_t count) {
  std::vector<int64_t> values = s.integers(name);
  if (values.empty()) values.assign(count, 0);
  if (values.size() != count)
    s.fail("attribute '" + std::string(name) + "' has " + std::to_string(values.size()) +
           " values, and needs " + std::to_string(count));
  return values;
}

Value element(const NodeScope& s, const Value& x, int64_t axis, int64_t i) {
  return s.part("Gather", {x, s.constant(array_of_integers({i}, {}))}, {{"axis", number(axis)}});
}

/// What a Scan consists of.
struct ScanParts {
  std::vector<Value> states, inputs;
  std::vector<int64_t> axes, backward;  ///< of the inputs
  std::vector<int64_t> to, flip;        ///< axes and directions of the results beside states
};

Tensor moved(const NodeScope& s, const Tensor& x, int64_t from, int64_t to) {
  std::vector<int> order;
  for (int d = 0; d < x.rank(); ++d) order.push_back(d);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, static_cast<int>(from));
  return from == to ? x : ops::transpose(x, order, s.at());
}

/// The results of a scan whose iterations are turns of a loop; nullopt where they are not alike.
std::optional<std::vector<Value>> looped(const NodeScope& s, const Graph& body,
                                         const ScanParts& parts, int64_t length) {
  if (!std::all_of(parts.states.begin(), parts.states.end(), is_plain) ||
      !std::all_of(parts.inputs.begin(), parts.inputs.end(),
                   [](const Value& v) { return is_plain(v) && !v.known(); }))
    return std::nullopt;
  GraphLoop loop(s, length);
  if (!loop.begun()) return std::nullopt;
  std::vector<Value> inputs;
  for (const Value& state : parts.states) inputs.push_back(loop.state(state));
  for (size_t i = 0; i < parts.inputs.size(); ++i) {
    const Tensor x = in_precision(s, parts.inputs[i]);
    const int axis = s.axis(parts.axes[i], x.rank());
    inputs.push_back(loop.row(moved(s, x, axis, 0), parts.backward[i] != 0));
  }
  const std::optional<std::vector<Value>> made = s.try_declare(body, inputs);
  if (!made) return std::nullopt;
  std::optional<std::vector<Value>> results = loop.results(*made, parts.flip);
  for (size_t i = parts.states.size(); results && i < results->size(); ++i) {
    const Tensor all = (*results)[i].tensor();
    (*results)[i] = moved(s, all, 0, s.axis(parts.to[i - parts.states.size()], all.rank()));
  }
  return results;
}

/// A scan over `inputs`, of which the first are states.
std::vector<Value> scanned(const NodeScope& s, const std::vector<Value>& inputs) {
  const Graph& body = s.graph("body");
  const int64_t scans = s.integer("num_scan_inputs");
  const auto given = static_cast<int64_t>(inputs.size());
  if (scans < 1 || scans > given) s.fail("it scans " + std::to_string(scans) + " inputs");
  const auto states = static_cast<size_t>(given - scans), count = static_cast<size_t>(scans);
  check_outputs(s, body, states);
  const size_t rows = body.outputs.size() - states;
  const auto axes = each(s, "scan_input_axes", count);
  const auto backward = each(s, s.opset() < 9 ? "directions" : "scan_input_directions", count);
  int64_t length = -1;
  for (size_t i = 0; i < count; ++i) {
    const Value& x = inputs[states + i];
    if (!x.is_array()) s.fail("it scans " + kind_of(x));
    const int axis = s.axis(axes[i], static_cast<int>(x.shape().size()));
    const int64_t extent = x.shape()[static_cast<size_t>(axis)];
    if (length >= 0 && extent != length)
      s.fail("the inputs that it scans have " + std::to_string(length) + " and " +
             std::to_string(extent) + " elements");
    length = extent;
  }
  std::vector<Value> carried(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states));
  const auto to = each(s, "scan_output_axes", rows), flip = each(s, "scan_output_directions", rows);
  if (std::optional<std::vector<Value>> results = looped(
          s, body,
          {carried, {inputs.begin() + std::ssize(carried), inputs.end()}, axes, backward, to, flip},
          length))
    return *std::move(results);
  if (length > kMostIterations)
    s.fail("it has " + std::to_string(length) + " iterations, and at most " +
               std::to_string(kMostIterations) + " are unrolled",
           "fewer steps at once, or an operator over the whole sequence in place of it");
  std::vector<std::vector<Value>> parts(rows);
  for (int64_t t = 0; t < length; ++t) {
    std::vector<Value> step = carried;
    for (size_t i = 0; i < count; ++i)
      step.push_back(
          element(s, inputs[states + i], axes[i], backward[i] != 0 ? length - 1 - t : t));
    const std::vector<Value> made = s.declare(body, step);
    std::copy_n(made.begin(), states, carried.begin());
    for (size_t r = 0; r < rows; ++r) parts[r].push_back(made[states + r]);
  }
  for (size_t r = 0; r < rows; ++r) {
    if (flip[r] != 0) std::reverse(parts[r].begin(), parts[r].end());
    carried.push_back(joined(s, parts[r], to[r], true));
  }
  return carried;
}

// Up to opset 8 all inputs had a batch, and the first was the lengths of its sequences.
std::vector<Value> scan(const NodeScope& s) {
  std::vector<Value> inputs;
  for (int i = s.opset() < 9 ? 1 : 0; i < s.count(); ++i) inputs.push_back(s.exact(i));
  if (s.opset() >= 9) return scanned(s, inputs);
  if (s.has(0)) s.fail("sequences of different lengths are not supported");
  if (inputs.empty()) s.fail("it has no inputs");
  std::vector<std::vector<Value>> results;
  for (int64_t b = 0; b < inputs[0].shape().at(0); ++b) {
    std::vector<Value> of_one;
    for (const Value& x : inputs) of_one.push_back(element(s, x, 0, b));
    const std::vector<Value> made = scanned(s, of_one);
    results.resize(made.size());
    for (size_t r = 0; r < made.size(); ++r) results[r].push_back(made[r]);
  }
  std::vector<Value> all;
  for (const std::vector<Value>& parts : results) all.push_back(joined(s, parts, 0, true));
  return all;
}

}  // namespace

std::vector<OperatorEntry> control_operators() {
  return {{"If", if_else}, {"Loop", loop}, {"Scan", scan}};
}

}  // namespace heddle::onnx
