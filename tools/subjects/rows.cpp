// Reductions, normalisations and data movement over a matrix: bound by memory.
#include <cmath>
#include <cstdint>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/nn.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/sort.h"
#include "heddle/ops/transform.h"
#include "subjects/peer_set.h"
#include "subjects/subjects.h"

namespace heddle::cli {
namespace {

using peers::OnednnReduceOver;

Tensor matrix(const Arguments& a, DataType dtype, const std::string& name = "x") {
  return placeholder({a["rows"], a["cols"]}, dtype, name);
}

Problem with(std::vector<Tensor> inputs, Tensor output, Bound bound = Bound::Copy) {
  Problem p;
  p.inputs = std::move(inputs);
  p.outputs = {std::move(output)};
  p.bound = bound;
  return p;
}

// Adds an op of f32 inputs that writes one array of `shape`.
template <class Make>
void add_onednn(PeerSet& set, const Extents& shape, Make make) {
  if (!set.onednn() || !set.all_f32()) return;
  const NDArray out = set.keep(NDArray::empty(shape, f32));
  set.add_onednn(make(out.data<float>()), out);
}

Problem sums(const Arguments& a, DataType dtype, const std::vector<int>& axes,
             OnednnReduceOver over) {
  Tensor x = matrix(a, dtype);
  Problem p = with({x}, ops::sum(x, axes), Bound::Read);
  const int64_t rows = a["rows"], cols = a["cols"];
  int64_t terms = rows * cols;
  for (const int64_t extent : p.outputs[0].extents()) terms /= extent;
  p.magnitude = std::sqrt(static_cast<double>(terms));
  const Extents shape = p.outputs[0].extents();
  p.peers = [=](PeerSet& set) {
    add_onednn(set, shape,
               [&](float* out) { return onednn_sum(over, rows, cols, set.f32(0), out); });
  };
  return p;
}

Problem row_sum(const Arguments& a, DataType dtype) {
  return sums(a, dtype, {1}, OnednnReduceOver::kRows);
}
Problem column_sum(const Arguments& a, DataType dtype) {
  return sums(a, dtype, {0}, OnednnReduceOver::kCols);
}
Problem full_sum(const Arguments& a, DataType dtype) {
  return sums(a, dtype, {}, OnednnReduceOver::kAll);
}

Problem argmax(const Arguments& a, DataType dtype) {
  Tensor x = matrix(a, dtype);
  return with({x}, ops::argmax(x, 1), Bound::Read);
}

Problem softmax(const Arguments& a, DataType dtype) {
  const int64_t rows = a["rows"], cols = a["cols"];
  Tensor x = matrix(a, dtype);
  Problem p = with({x}, ops::softmax(x));
  p.peers = [=](PeerSet& set) {
    add_onednn(set, {rows, cols},
               [&](float* out) { return peers::onednn_softmax(rows, cols, set.f32(0), out); });
  };
  return p;
}

Problem log_softmax(const Arguments& a, DataType dtype) {
  const int64_t rows = a["rows"], cols = a["cols"];
  Tensor x = matrix(a, dtype);
  Problem p = with({x}, ops::log_softmax(x));
  p.peers = [=](PeerSet& set) {
    add_onednn(set, {rows, cols},
               [&](float* out) { return peers::onednn_logsoftmax(rows, cols, set.f32(0), out); });
  };
  return p;
}

Problem layer_norm(const Arguments& a, DataType dtype) {
  const int64_t rows = a["rows"], cols = a["cols"];
  Tensor x = matrix(a, dtype);
  Tensor scale = placeholder({cols}, dtype, "scale"), shift = placeholder({cols}, dtype, "shift");
  Problem p = with({x, scale, shift}, ops::layer_norm(x, scale, shift));
  p.peers = [=](PeerSet& set) {
    add_onednn(set, {rows, cols}, [&](float* out) {
      return peers::onednn_layer_norm(rows, cols, 1e-5f, set.f32(1), set.f32(2), set.f32(0), out);
    });
  };
  return p;
}

Problem rms_norm(const Arguments& a, DataType dtype) {
  Tensor x = matrix(a, dtype), scale = placeholder({a["cols"]}, dtype, "scale");
  return with({x, scale}, ops::rms_norm(x, scale));
}

Problem bias_gelu(const Arguments& a, DataType dtype) {
  const int64_t rows = a["rows"], cols = a["cols"];
  const bool tanh_form = a.word("form") == "tanh";
  Tensor x = matrix(a, dtype), bias = placeholder({cols}, dtype, "bias");
  Tensor shifted = ops::add(x, bias);
  Problem p = with({x, bias}, tanh_form ? ops::gelu_tanh(shifted) : ops::gelu(shifted));
  const auto kind = tanh_form ? peers::OnednnEltwise::kGeluTanh : peers::OnednnEltwise::kGeluErf;
  p.peers = [=](PeerSet& set) {
    add_onednn(set, {rows, cols}, [&](float* out) {
      return peers::onednn_bias_eltwise(rows, cols, kind, set.f32(0), set.f32(1), out);
    });
  };
  return p;
}

Problem add_relu(const Arguments& a, DataType dtype) {
  const std::vector<int64_t> shape = {a["rows"], a["cols"]};
  Tensor x = matrix(a, dtype), y = matrix(a, dtype, "y");
  Problem p = with({x, y}, ops::relu(ops::add(x, y)));
  p.peers = [=](PeerSet& set) {
    add_onednn(set, shape, [&](float* out) {
      return peers::onednn_add_relu(shape, set.f32(0), set.f32(1), out);
    });
  };
  return p;
}

Problem transpose(const Arguments& a, DataType dtype) {
  const int64_t rows = a["rows"], cols = a["cols"];
  Tensor x = matrix(a, dtype);
  Problem p = with({x}, ops::transpose(x));
  p.peers = [=](PeerSet& set) {
    add_onednn(set, {cols, rows},
               [&](float* out) { return peers::onednn_transpose(rows, cols, set.f32(0), out); });
  };
  return p;
}

Problem concat(const Arguments& a, DataType dtype) {
  std::vector<Tensor> parts;
  for (const char* name : {"x", "y", "z"}) parts.push_back(matrix(a, dtype, name));
  const int64_t rows = a["rows"], cols = a["cols"];
  const int axis = static_cast<int>(a["axis"]);
  Problem p = with(parts, ops::concat(parts, axis));
  p.peers = [=](PeerSet& set) {
    add_onednn(set, axis == 0 ? Extents{3 * rows, cols} : Extents{rows, 3 * cols}, [&](float* out) {
      return peers::onednn_concat(rows, cols, axis, {set.f32(0), set.f32(1), set.f32(2)}, out);
    });
  };
  return p;
}

// Rows of a table, such as the embeddings of words.
Problem gather(const Arguments& a, DataType dtype) {
  Tensor table = matrix(a, dtype, "table"), rows = placeholder({a["n"]}, i32, "rows");
  Problem p = with({table, rows}, ops::gather(table, rows, 0));
  p.ranges = {{}, {0, static_cast<double>(a["rows"])}};
  return p;
}

Problem top_k(const Arguments& a, DataType dtype) {
  Tensor x = matrix(a, dtype);
  return with({x}, ops::top_k(x, a["k"], 1).values, Bound::Read);
}

}  // namespace

std::vector<SubjectKind> row_subjects() {
  const std::vector<Parameter> extents = {{"rows", "", "rows of the matrix"},
                                          {"cols", "", "columns of the matrix"}};
  auto kind = [&](const std::string& name, const std::string& about,
                  Problem (*declare)(const Arguments&, DataType), const std::string& size,
                  const std::vector<Parameter>& more = {}) {
    std::vector<Parameter> parameters = extents;
    parameters.insert(parameters.end(), more.begin(), more.end());
    return SubjectKind{"Matrices, bound by memory",
                       about,
                       {name, 2, std::move(parameters), name + ":" + size},
                       declare};
  };
  return {
      kind("softmax", "along the rows", softmax, "4096x4096"),
      kind("log_softmax", "along the rows", log_softmax, "4096x4096"),
      kind("layer_norm", "along the rows, with scale and shift", layer_norm, "4096x4096"),
      kind("rms_norm", "along the rows, with scale", rms_norm, "4096x4096"),
      kind("row_sum", "one number a row", row_sum, "4096x4096"),
      kind("column_sum", "one number a column", column_sum, "4096x4096"),
      kind("full_sum", "one number", full_sum, "4096x4096"),
      kind("argmax", "the position of the largest element of each row", argmax, "4096x4096"),
      kind("bias_gelu", "gelu(x + bias)", bias_gelu, "4096x4096",
           {{"form", "erf", "which gelu", {"erf", "tanh"}}}),
      kind("add_relu", "relu(x + y)", add_relu, "4096x4096"),
      kind("transpose", "columns to rows", transpose, "4096x4096"),
      kind("concat", "three matrices to one", concat, "1000x1000",
           {{"axis", "1", "0: below each other, 1: side by side", {}, 0, 1}}),
      kind("gather", "rows of a table, at N positions", gather, "30522x768",
           {{"n", "4096", "rows that are read"}}),
      kind("top_k", "the largest elements of each row", top_k, "32x1000", {{"k", "5", "elements"}}),
  };
}

}  // namespace heddle::cli
