// Serialised declarations: what is read is what was written, and what is damaged or hostile is an
// error that says so.
#include "dag/declaration/declaration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dag/declarations.h"
#include "heddle/dag/alternatives.h"
#include "heddle/ops/conv.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

std::string text_of(const ComputeDag& dag) {
  std::string text = dag.to_text();
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    text += op.tag() + (op.is_constant() ? " constant\n" : "\n");
  }
  return text;
}

/// Reads what is written of `dag`, and compares the two.
Declaration round_trip(const ComputeDag& dag, const std::vector<Tensor>& args = {}) {
  const Json written = declaration_to_json(dag, args);
  // As it goes through a pipe.
  Declaration read = declaration_from_json(Json::parse(written.dump()));
  EXPECT_EQ(read.dag.structural_hash(), dag.structural_hash());
  EXPECT_EQ(read.dag.shape_class(), dag.shape_class());
  EXPECT_EQ(read.dag.alternative(), dag.alternative());
  EXPECT_EQ(text_of(read.dag), text_of(dag));
  EXPECT_EQ(declaration_to_json(read.dag, read.args).dump(), written.dump());
  EXPECT_EQ(read.args.size(), args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    EXPECT_EQ(read.args[i].name(), args[i].name());
    EXPECT_EQ(read.args[i].extents(), args[i].extents());
    EXPECT_FALSE(read.args[i].same_as(args[i]));
  }
  return read;
}

Reducer argmax() {
  return reducer("argmax", {i64, f32}, {int64_t{-1}, -std::numeric_limits<float>::infinity()},
                 [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                   const Expr left = a[1] >= b[1];
                   return std::vector<Expr>{select(left, a[0], b[0]), select(left, a[1], b[1])};
                 });
}

TEST(Declaration, KeepsEverythingButTheLinesOfTheSource) {
  const dag_test::Matmul m(12, 20, 7);
  const Declaration read = round_trip(ComputeDag({m.d}), {m.bias, m.d, m.a, m.b});
  EXPECT_EQ(read.args[0].name(), "bias");
  EXPECT_EQ(read.args[1].op(), read.dag.outputs()[0].op());
  const dag_test::Softmax s;
  round_trip(ComputeDag({s.y, s.total}), {s.x, s.total, s.y});
  const Tensor w = constant_placeholder({3}, i8, "w");
  const Tensor y = compute({3}, [&](Axis i) { return cast(f32, w(i)); }, "y", "a tag");
  EXPECT_TRUE(round_trip(ComputeDag({y}), {w, y}).args[0].op()->is_constant());
}

TEST(Declaration, NumbersAreExact) {
  const double nan = std::nan("0x12345");
  for (const double value : {0.1, -0.0, 1e308, 5e-324, std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(), nan}) {
    const Tensor x = placeholder({4}, f64, "x");
    round_trip(ComputeDag({compute({4}, [&](Axis i) { return max(x(i), Expr(value)); })}));
  }
  const Tensor u = placeholder({4}, u64, "u");
  round_trip(ComputeDag({compute(
      {4}, [&](Axis i) { return u(i) * make_int(u64, static_cast<int64_t>(1ULL << 63)); })}));
  const Tensor h = placeholder({4}, f16, "h");
  round_trip(ComputeDag({compute({4}, [&](Axis i) { return h(i) * make_float(f16, 0.1); })}));
  const Tensor b = placeholder({}, boolean, "b");
  round_trip(ComputeDag({compute({}, [&] { return !b.at({}); })}));
}

TEST(Declaration, UsersReducersAndAxesOfSeveralOperations) {
  const Tensor x = placeholder({5, 9}, f32, "x");
  const Axis k = reduce_axis(9, "k");
  const Reducer by = argmax();
  const std::vector<Tensor> best =
      compute_all({5}, [&](Axis i) { return by({k, x(i, k)}, {k}); }, "best");
  const Tensor total = compute({5}, [&](Axis i) { return sum(x(i, k), k); }, "total");
  const Tensor again = compute_all({5}, [&](Axis i) { return by({k, -x(i, k)}, {k}); }, "again")[1];
  const Declaration read =
      round_trip(ComputeDag({best[0], best[1], total, again}), {x, best[1], best[0], total, again});
  // One reducer, and one axis, are still one.
  const auto reduce = [&](int output) {
    return read.dag.outputs()[static_cast<size_t>(output)].op()->bodies()[0].as<Reduce>();
  };
  EXPECT_EQ(reduce(0)->combiner.get(), reduce(3)->combiner.get());
  EXPECT_TRUE(reduce(0)->axes[0].same_as(reduce(2)->axes[0]));
}

TEST(Declaration, SharedNodesAreWrittenOnce) {
  const Tensor x = placeholder({8}, f32, "x");
  const Tensor y = compute({8}, [&](Axis i) {
    Expr v = x(i);
    for (int n = 0; n < 12; ++n) v = v * v + v;
    return v;
  });
  const Json written = declaration_to_json(ComputeDag({y}));
  EXPECT_EQ(written.at("declaration").at("operations").at(1).at("nodes").size(), 2u + 2 * 12);
  round_trip(ComputeDag({y}));
}

TEST(Declaration, AnAlternativeIsReadWithWhatItWasMadeOf) {
  const Tensor x = placeholder({1, 32, 14, 14}, f32, "x");
  const Tensor w = constant_placeholder({32, 32, 3, 3}, f32, "w");
  const Tensor y = ops::conv2d(x, w, {.padding = {1, 1}});
  const ComputeDag dag({y});
  int seen = 0;
  for (const Alternative& a : alternatives_of(dag, Target::parse("llvm -mcpu=skylake"), {})) {
    if (!a.legal()) continue;
    const ComputeDag rewritten = apply_alternative(dag, a.name);
    const Declaration read = round_trip(rewritten, {x, w, y});
    EXPECT_EQ(read.dag.alternative(), a.name);
    EXPECT_EQ(read.dag.direct().structural_hash(), dag.structural_hash());
    EXPECT_GE(read.dag.index_of(read.dag.counterpart(read.args[0]).op()), 0);
    EXPECT_TRUE(read.dag.counterpart(read.args[2]).same_as(read.dag.outputs()[0]));
    ++seen;
  }
  EXPECT_GT(seen, 0);
  // One that collapses axes: its placeholders are others.
  const Tensor one = constant_placeholder({16, 32, 1, 1}, f32, "one");
  const Tensor z = ops::conv2d(x, one, {});
  int others = 0;
  for (const Alternative& a : alternatives_of(ComputeDag({z}), Target::host(), {})) {
    if (!a.legal()) continue;
    const Declaration read = round_trip(apply_alternative(ComputeDag({z}), a.name), {x, one, z});
    others += !read.dag.counterpart(read.args[0]).same_as(read.args[0]);
  }
  EXPECT_GT(others, 0);
}

// ---- what is wrong -----------------------------------------------------------------------------

Json softmax_text() {
  const dag_test::Softmax s(4, 6);
  return declaration_to_json(ComputeDag({s.y}), {s.x, s.y});
}

/// `json` with the checksum of what it says now.
Json sealed(Json json) {
  const std::string text = json.at("declaration").dump();
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(hash_bytes(text.data(), text.size())));
  json["checksum"] = Json(digits);
  return json;
}

std::string problem_of(const Json& json) {
  try {
    declaration_from_json(json);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User) << e.what();
    return e.message;
  }
  return "";
}

/// The problem of a declaration of one more operation than softmax_text's.
std::string problem_with(const std::string& operation) {
  Json json = softmax_text();
  json["declaration"]["operations"].push_back(Json::parse(operation));
  return problem_of(sealed(json));
}

#define EXPECT_SAYS(problem, part)                                               \
  do {                                                                           \
    const std::string said = (problem);                                          \
    EXPECT_NE(said.find(part), std::string::npos) << "it says '" << said << "'"; \
  } while (false)

TEST(Declaration, WhatIsNoneOrOfAnotherVersionIsRefused) {
  EXPECT_EQ(problem_of(sealed(softmax_text())), "");
  EXPECT_SAYS(problem_of(Json()), "this is no serialised declaration");
  EXPECT_SAYS(problem_of(Json::array({1, 2})), "this is no serialised declaration");
  Json json = softmax_text();
  json["version"] = Json(2);
  EXPECT_SAYS(problem_of(json), "it is of version 2, and this library reads 1");
  json = softmax_text();
  json["declaration"]["args"] = Json::array();
  json["declaration"]["outputs"] = Json::array({Json::array({2, 0})});
  EXPECT_SAYS(problem_of(json), "its checksum is wrong");
  EXPECT_SAYS(problem_of(sealed(json)), "it computes something else than what was written");
  json = softmax_text();
  json["checksum"] = Json("12");
  EXPECT_SAYS(problem_of(json), "'checksum' is not sixteen hexadecimal digits");
  json["declaration"] = Json();
  EXPECT_NE(problem_of(json), "");
}

TEST(Declaration, WhatTheDslRefusesIsRefused) {
  const auto compute_of = [](const std::string& nodes, const std::string& bodies = "[40]",
                             const std::string& axes = "[2]") {
    return R"({"compute": "bad", "tag": "", "axes": )" + axes + R"(, "nodes": [)" + nodes +
           R"(], "bodies": )" + bodies + "}";
  };
  const size_t nodes = [] {
    size_t n = 0;
    const Json json = softmax_text();
    for (const Json& o : json.at("declaration").at("operations").elements())
      if (const Json* list = o.find("nodes")) n += list->size();
    return n;
  }();
  const auto last = [&](size_t i) { return "[" + std::to_string(nodes + i) + "]"; };
  const auto ref = [&](size_t i) { return std::to_string(nodes + i); };
  // Out of bounds: the axis of 6 where there are 4 rows.
  EXPECT_SAYS(
      problem_with(compute_of(
          R"(["int", "i64", 9], ["load", 0, 0, [)" + ref(0) + "," + ref(0) + "]]", last(1))),
      "'bad' reads 'x' out of bounds");
  EXPECT_SAYS(problem_with(compute_of(R"(["load", 0, 0, [)" + ref(0) + "]]", last(0))),
              "there is no node");
  EXPECT_SAYS(
      problem_with(compute_of(R"(["int", "i64", 0], ["load", 0, 0, [)" + ref(0) + "]]", last(1))),
      "has 2 dimensions but is read with 1 index");
  EXPECT_SAYS(
      problem_with(compute_of(R"(["int", "i64", 0], ["load", 9, 0, [)" + ref(0) + "]]", last(1))),
      "there is no operation 9 here");
  EXPECT_SAYS(
      problem_with(compute_of(R"(["float", "f32", 1.0], ["int", "i32", 1], ["binary", "+", )" +
                                  ref(0) + ", " + ref(1) + "]",
                              last(2))),
      "comes out as");
  EXPECT_SAYS(
      problem_with(compute_of(
          R"(["int", "i64", 1], ["binary", "+", )" + ref(0) + ", " + ref(0) + "]", last(1))),
      "comes out as '2'");
  EXPECT_SAYS(problem_with(compute_of(R"(["float", "f32", 0.1])", last(0))),
              "0.1 is no value of f32");
  EXPECT_SAYS(problem_with(compute_of(R"(["int", "u8", 256])", last(0))), "256 is no value of u8");
  EXPECT_SAYS(problem_with(compute_of(R"(["int", "i64x4", 1])", last(0))), "no type of a scalar");
  EXPECT_SAYS(problem_with(compute_of(R"(["unary", "exp", )" + ref(0) + "]", last(0))),
              "there is no node");  // of itself
  EXPECT_SAYS(problem_with(compute_of(R"(["int", "i64", 0], ["unary", "explode", )" + ref(0) + "]",
                                      last(1))),
              "'explode' is no unary operator");
  EXPECT_SAYS(problem_with(compute_of(R"(["shuffle", 0, 1])", last(0))),
              "there is no kind of node 'shuffle'");
  EXPECT_SAYS(problem_with(compute_of(R"(["lhs", 0])", last(0))), "no kind of node 'lhs'");
  EXPECT_SAYS(problem_with(compute_of(R"(["axis", 2])", last(0), "[2, 2]")), "is there twice");
  EXPECT_SAYS(problem_with(compute_of(R"(["axis", 77])", last(0))), "there is no axis 77");
  EXPECT_SAYS(problem_with(compute_of(R"(["axis", 2])", "[]")), "has no outputs");
  EXPECT_SAYS(
      problem_with(R"({"placeholder": "p", "type": "f32", "shape": [-1], "constant": false})"),
      "is -1");
  EXPECT_SAYS(problem_with(R"({"placeholder": "p", "type": "f32", "constant": false,
                               "shape": [4294967296, 4294967296]})"),
              "too many elements");
  EXPECT_SAYS(
      problem_with(R"({"placeholder": "p", "type": "f33", "shape": [1], "constant": false})"),
      "'f33' is no type");
  EXPECT_SAYS(problem_with(R"({"placeholder": 7, "type": "f32", "shape": [1], "constant": false})"),
              "expected a string");
  EXPECT_SAYS(problem_with(R"([])"), "operation 4: ");
  // The place is named.
  EXPECT_SAYS(problem_with(compute_of(R"(["int", "u8", 256])")),
              "serialised declaration: operation 4: node " + std::to_string(nodes) + ": ");
}

TEST(Declaration, AxesOfTwoOperationsOfOneGraphAreRefused) {
  Json json = softmax_text();
  Json& operations = json["declaration"]["operations"];
  // The rows of 'high' and of 'total', which are equally many.
  std::string text = operations.dump();
  for (const auto& [theirs, ours] :
       {std::pair<std::string, std::string>("[\"axis\",3]", "[\"axis\",2]"),
        {"\"axes\":[3]", "\"axes\":[2]"}}) {
    const size_t at = text.find(theirs);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, theirs.size(), ours);
  }
  operations = Json::parse(text);
  EXPECT_SAYS(problem_of(sealed(json)), "is one of two operations, 'total' and another");
}

TEST(Declaration, DeepOrEndlessOnesAreRefused) {
  const Tensor x = placeholder({8}, f32, "x");
  const auto nested = [&](int depth) {
    return ComputeDag({compute({8}, [&](Axis i) {
      Expr v = x(i);
      for (int n = 0; n < depth; ++n) v = exp(v);
      return v;
    })});
  };
  round_trip(nested(3900));
  EXPECT_THROW(declaration_to_json(nested(4100)), Error);
  Json json = declaration_to_json(nested(3900));
  Json& nodes = json["declaration"]["operations"];
  Json operation = nodes.at(1);
  const size_t size = operation.at("nodes").size();
  for (size_t n = 0; n < 500; ++n)
    operation["nodes"].push_back(Json::array({"unary", "exp", size - 1 + n}));
  operation["bodies"] = Json::array({size + 499});
  nodes = Json::array({nodes.at(0), operation});
  EXPECT_SAYS(problem_of(sealed(json)), "nested deeper than 4000 levels");

  std::vector<Tensor> chain{x};
  for (int n = 0; n < 3900; ++n) {
    const Tensor last = chain.back();
    chain.push_back(compute({8}, [&](Axis i) { return last(i) + 1.f; }));
  }
  const ComputeDag dag({chain.back()});
  json = declaration_to_json(dag, {x, chain.back()});
  EXPECT_EQ(declaration_from_json(json).dag.size(), 3901);
}

// ---- anything ----------------------------------------------------------------------------------

Json random_value(Rng& rng) {
  switch (rng.uniform_int(0, 7)) {
    case 0: return Json();
    case 1: return Json(rng.chance(0.5));
    case 2: return Json(rng.uniform_int(-2, 12));
    case 3: return Json(rng.choose(std::vector<int64_t>{INT64_MAX, INT64_MIN, 1LL << 40}));
    case 4: return Json(0.5);
    case 5:
      return Json(rng.choose(std::vector<std::string>{"", "f32", "i64", "reduce", "select", "load",
                                                      "axis", "+", "<", "exp"}));
    case 6: return Json::array();
    default: return Json::object();
  }
}

/// `json` with one value, somewhere within, in the place of another.
Json mutated(const Json& json, Rng& rng) {
  if (rng.chance(0.05)) return random_value(rng);
  if (json.is_int() && rng.chance(0.7)) {
    return Json(static_cast<int64_t>(static_cast<uint64_t>(json.as_int()) +
                                     static_cast<uint64_t>(rng.uniform_int(-3, 3))));
  }
  const bool leaf = !(json.is_array() || json.is_object()) || json.size() == 0;
  if (leaf) return random_value(rng);
  const auto at = static_cast<size_t>(rng.uniform_int(0, static_cast<int64_t>(json.size()) - 1));
  Json out = json.is_array() ? Json::array() : Json::object();
  for (size_t i = 0; i < json.size(); ++i) {
    if (json.is_array()) {
      if (i == at && rng.chance(0.05)) continue;  // left out
      out.push_back(i == at ? mutated(json.at(i), rng) : json.at(i));
      if (i == at && rng.chance(0.05)) out.push_back(json.at(i));  // there twice
    } else {
      const auto& [key, value] = json.members()[i];
      if (i == at && rng.chance(0.05)) continue;
      out[key] = i == at ? mutated(value, rng) : value;
    }
  }
  return out;
}

// Whatever is changed: an error of the user's kind, or a declaration that is a good one.
TEST(Declaration, NoChangeOfTheTextHarmsTheReader) {
  const Tensor x = placeholder({5, 9}, f32, "x");
  const Axis k = reduce_axis(9, "k");
  const Reducer by = argmax();
  const std::vector<Tensor> best =
      compute_all({5}, [&](Axis i) { return by({k, x(i, k)}, {k}); }, "best");
  const Tensor shifted = compute(
      {7}, [&](Axis i) { return select(i >= 1 && i <= 5, best[1](max(0, min(4, i - 1))), 0.f); });
  const std::vector<Json> texts{
      softmax_text(), declaration_to_json(ComputeDag({shifted, best[0]}), {x, shifted, best[0]})};
  Rng rng(11);
  int refused = 0, read = 0;
  for (int n = 0; n < 6000; ++n) {
    Json json = texts[static_cast<size_t>(n) % texts.size()];
    const auto changes = rng.uniform_int(1, 3);
    for (int c = 0; c < changes; ++c) json["declaration"] = mutated(json.at("declaration"), rng);
    json = sealed(json);
    try {
      const Declaration good = declaration_from_json(json);
      EXPECT_EQ(
          good.dag.structural_hash(),
          declaration_from_json(declaration_to_json(good.dag, good.args)).dag.structural_hash());
      ++read;
    } catch (const Error& e) {
      ASSERT_EQ(e.kind, ErrorKind::User) << e.what() << "\n" << json.dump();
      ++refused;
    }
  }
  EXPECT_GT(refused, 3000);
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace heddle
