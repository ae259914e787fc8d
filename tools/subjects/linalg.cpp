// Matrix products.
#include <cstdint>
#include <memory>

#include "heddle/ops/linalg.h"
#include "heddle/ops/transform.h"
#include "heddle/runtime/thread_pool.h"
#include "peers/peer_cblas.h"
#include "peers/peer_halide.h"
#include "peers/peer_libxsmm.h"
#include "peers/peer_openblas.h"
#include "subjects/peer_set.h"
#include "subjects/subjects.h"

namespace heddle::cli {
namespace {

using peers::GemmShape;

double matmul_flops(const GemmShape& s, int64_t batch = 1) {
  return s.flops() * static_cast<double>(batch);
}

Extents operand(int64_t rows, int64_t cols, bool transposed) {
  return transposed ? Extents{cols, rows} : Extents{rows, cols};
}

Shape to_shape(const Extents& extents) { return Shape(extents.begin(), extents.end()); }

// A product of inputs 0 and 1, by openblas_*gemm and oneDNN's matmul.
void add_matmul_peers(PeerSet& set, const GemmShape& s, bool constant_b) {
  if (set.openblas() && set.all_f32()) {
    const NDArray c = set.keep(NDArray::empty({s.m, s.n}, f32));
    const auto gemm =
        std::make_shared<peers::OpenBlasSgemm>(s, set.f32(0), set.f32(1), c.data<float>());
    const std::string note = peers::openblas_info().core_name + (gemm->uses_gemv() ? ", gemv" : "");
    set.add({"openblas", note, [gemm] { gemm->run(); }, [c] { return c; }});
  }
  if (set.openblas() && set.all_f64()) {
    const NDArray c = set.keep(NDArray::empty({s.m, s.n}, f64));
    const double* a = set.input(0).data<double>();
    const double* b = set.input(1).data<double>();
    set.add({"openblas", peers::openblas_info().core_name,
             [s, a, b, c] { peers::openblas_dgemm(s, a, b, c.data<double>()); },
             [c] { return c; }});
  }
  if (set.onednn() && set.all_f32()) {
    const NDArray c = set.keep(NDArray::empty({s.m, s.n}, f32));
    peers::OnednnMatmulSpec spec;
    spec.shape = s;
    spec.packed_weights = constant_b;
    set.add_onednn(onednn_matmul(spec, set.f32(0), set.f32(1), nullptr, c.data<float>()), c);
  }
}

// Libraries that support f32 and no packed operand.
void add_more_matmul_peers(PeerSet& set, const GemmShape& s) {
  if (!set.all_f32()) return;
  const float *a = set.f32(0), *b = set.f32(1);
  auto output = [&] { return set.keep(NDArray::empty({s.m, s.n}, f32)); };
  for (const auto& [name, peer] : set.cblas()) {
    const NDArray c = output();
    set.add({name, peer->version, [s, a, b, c, peer] { peer->sgemm(s, a, b, c.data<float>()); },
             [c] { return c; }});
  }
  // libxsmm has no threads, so each thread computes an equal share of the rows.
  if (set.libxsmm() && s.m % set.threads() == 0) {
    GemmShape part = s;
    part.m = s.m / set.threads();
    if (const auto kernel = peers::libxsmm_kernel(part)) {
      const NDArray c = output();
      auto run = [=, threads = set.threads()] {
        parallel_for(threads, [&](int64_t begin, int64_t end) {
          for (int64_t t = begin; t < end; ++t) {
            kernel(a + t * part.m * part.k, b, c.data<float>() + t * part.m * part.n);
          }
        });
      };
      set.add({"libxsmm", "one kernel a thread", run, [c] { return c; }});
    }
  }
  if (set.halide()) {
    const NDArray c = output();
    const peers::HalideOp op = peers::halide_matmul(s, set.threads(), a, b, c.data<float>());
    if (op.run) {
      set.add({"halide", "Adams2019", op.run, [c] { return c; }});
    } else {
      set.remark("halide: " + op.error);
    }
  }
}

NDArray converted(const NDArray& x, DataType dtype) {
  NDArray out = NDArray::empty(x.shape(), dtype);
  for (int64_t i = 0; i < x.size(); ++i) out.set(i, x.get(i));
  return out;
}

// The product of two matrices of bytes, by the faster of oneDNN's two ways.
void add_int8_matmul_peer(PeerSet& set, const GemmShape& s, bool constant_b) {
  if (!set.onednn() || set.input(1).dtype() != i8) return;
  using peers::OnednnType;
  const OnednnType a = set.input(0).dtype() == u8 ? OnednnType::kU8 : OnednnType::kS8;
  peers::OnednnMatmulSpec spec;
  spec.shape = s;
  spec.packed_weights = constant_b;
  const NDArray c = set.keep(NDArray::empty({s.m, s.n}, i32));
  const NDArray d = set.keep(NDArray::empty({s.m, s.n}, i32));
  const void *x = set.input(0).data(), *y = set.input(1).data();
  set.add_fastest_onednn(
      {{"", onednn_matmul_of(spec, {a, OnednnType::kS8, OnednnType::kS32}, x, y, c.data()), c},
       {"", onednn_gemm_s32(s, a, x, static_cast<const int8_t*>(y), d.data<int32_t>()), d}});
}

// Where oneDNN has no product of this 16-bit type, it computes in f32, without time for
// conversions.
void add_half_matmul_peer(PeerSet& set, const GemmShape& s, bool constant_b) {
  const DataType t = set.input(0).dtype();
  if (!set.onednn() || (t != bf16 && t != f16)) return;
  using peers::OnednnType;
  const OnednnType type = t == bf16 ? OnednnType::kBf16 : OnednnType::kF16;
  peers::OnednnMatmulSpec spec;
  spec.shape = s;
  spec.packed_weights = constant_b;
  const NDArray c = set.keep(NDArray::empty({s.m, s.n}, t));
  peers::OnednnOp op = onednn_matmul_of(spec, {type, type, type}, set.input(0).data(),
                                        set.input(1).data(), c.data());
  if (op) return set.add_onednn(std::move(op), c);
  const NDArray x = set.keep(converted(set.input(0), f32)),
                y = set.keep(converted(set.input(1), f32));
  const NDArray wide = set.keep(NDArray::empty({s.m, s.n}, f32));
  set.add_onednn(
      onednn_matmul(spec, x.data<float>(), y.data<float>(), nullptr, wide.data<float>()), wide,
      [t](const NDArray& z) { return converted(z, t); }, "onednn in f32");
}

Problem matmul(const Arguments& a, DataType dtype) {
  const GemmShape s{a["m"], a["n"], a["k"], a["ta"] != 0, a["tb"] != 0};
  const bool constant_b = a["const_b"] != 0;
  const Shape b_shape = to_shape(operand(s.k, s.n, s.trans_b));
  const DataType a_type = a["ua"] != 0 ? DataType{TypeCode::UInt, dtype.bits} : dtype;
  Tensor x = placeholder(to_shape(operand(s.m, s.k, s.trans_a)), a_type, "A");
  Tensor y =
      constant_b ? constant_placeholder(b_shape, dtype, "B") : placeholder(b_shape, dtype, "B");
  Problem p;
  p.inputs = {x, y};
  p.outputs = {ops::matmul(x, y, s.trans_a, s.trans_b)};
  p.flops = matmul_flops(s);
  if (a["ua"] == 0) p.product = s;
  // A product with a vector uses each element of the matrix once.
  if (s.m == 1 || s.n == 1) p.bound = Bound::Read;
  // The ranges are such that oneDNN does not saturate.
  if (dtype.bits == 8) p.ranges = {a["ua"] != 0 ? Range{0, 60} : Range{-30, 30}, {-30, 30}};
  p.peers = [s, constant_b](PeerSet& set) {
    add_matmul_peers(set, s, constant_b);
    add_more_matmul_peers(set, s);
    add_int8_matmul_peer(set, s, constant_b);
    add_half_matmul_peer(set, s, constant_b);
  };
  return p;
}

Problem batch_matmul(const Arguments& a, DataType dtype) {
  const GemmShape s{a["m"], a["n"], a["k"], a["ta"] != 0, a["tb"] != 0};
  const int64_t batch = a["b"];
  auto stacked = [&](Extents matrix) {
    matrix.insert(matrix.begin(), batch);
    return to_shape(matrix);
  };
  Tensor x = placeholder(stacked(operand(s.m, s.k, s.trans_a)), dtype, "A");
  Tensor y = placeholder(stacked(operand(s.k, s.n, s.trans_b)), dtype, "B");
  Problem p;
  p.inputs = {x, y};
  p.outputs = {ops::batch_matmul(x, y, s.trans_a, s.trans_b)};
  p.flops = matmul_flops(s, batch);
  p.peers = [s, batch](PeerSet& set) {
    if (!set.all_f32()) return;
    if (set.openblas()) {
      const NDArray c = set.keep(NDArray::empty({batch, s.m, s.n}, f32));
      const float *x0 = set.f32(0), *y0 = set.f32(1);
      float* c0 = c.data<float>();
      auto run = [=] {
        for (int64_t i = 0; i < batch; ++i) {
          peers::openblas_sgemm(s, x0 + i * s.m * s.k, y0 + i * s.k * s.n, c0 + i * s.m * s.n);
        }
      };
      set.add({"openblas", "one sgemm after the other", run, [c] { return c; }});
    }
    if (const auto kernel = set.libxsmm() ? peers::libxsmm_kernel(s) : nullptr) {
      const NDArray c = set.keep(NDArray::empty({batch, s.m, s.n}, f32));
      const float *x0 = set.f32(0), *y0 = set.f32(1);
      auto run = [=] {
        parallel_for(batch, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            kernel(x0 + i * s.m * s.k, y0 + i * s.k * s.n, c.data<float>() + i * s.m * s.n);
          }
        });
      };
      set.add({"libxsmm", "a product a thread", run, [c] { return c; }});
    }
    if (set.onednn()) {
      const NDArray c = set.keep(NDArray::empty({batch, s.m, s.n}, f32));
      peers::OnednnMatmulSpec spec;
      spec.shape = s;
      spec.batch = batch;
      set.add_onednn(onednn_matmul(spec, set.f32(0), set.f32(1), nullptr, c.data<float>()), c);
    }
  };
  return p;
}

Problem dense(const Arguments& a, DataType dtype) {
  const GemmShape s{a["m"], a["n"], a["k"], false, true};
  const bool with_bias = a["bias"] != 0;
  Tensor x = placeholder({s.m, s.k}, dtype, "x");
  Tensor weight = constant_placeholder({s.n, s.k}, dtype, "weight");
  Problem p;
  p.inputs = {x, weight};
  Tensor bias;
  if (with_bias) {
    bias = constant_placeholder({s.n}, dtype, "bias");
    p.inputs.push_back(bias);
  }
  p.outputs = {ops::dense(x, weight, bias)};
  p.flops = matmul_flops(s);
  p.peers = [s, with_bias](PeerSet& set) {
    if (!with_bias) return add_matmul_peers(set, s, true);
    // OpenBLAS has no bias, so its result would differ.
    if (!set.all_f32() || !set.onednn()) return;
    const NDArray c = set.keep(NDArray::empty({s.m, s.n}, f32));
    peers::OnednnMatmulSpec spec;
    spec.shape = s;
    spec.packed_weights = true;
    set.add_onednn(onednn_matmul(spec, set.f32(0), set.f32(1), set.f32(2), c.data<float>()), c);
  };
  return p;
}

// oneDNN takes two reorders and a product of their results.
void add_tbg_peer(PeerSet& set, int64_t h, int64_t l, int64_t d) {
  if (!set.onednn() || !set.all_f32()) return;
  const NDArray q = set.keep(NDArray::empty({h, l, d}, f32));
  const NDArray k = set.keep(NDArray::empty({h, l, d}, f32));
  const NDArray out = set.keep(NDArray::empty({h, l, l}, f32));
  peers::OnednnMatmulSpec spec;
  spec.batch = h;
  spec.shape = {l, l, d, false, true};
  const auto first = peers::onednn_permute({l, h, d}, {1, 0, 2}, set.f32(0), q.data<float>());
  const auto second = peers::onednn_permute({l, h, d}, {1, 0, 2}, set.f32(1), k.data<float>());
  const auto product =
      onednn_matmul(spec, q.data<float>(), k.data<float>(), nullptr, out.data<float>());
  if (!first || !second || !product) return;
  set.add({"onednn", "reorder, reorder, matmul",
           [=] {
             first.run();
             second.run();
             product.run();
           },
           [=] {
             product.read_back();
             return out;
           }});
}

// Attention scores from activations whose heads are interleaved: (L, H, D) x (L, H, D) -> (H, L,
// L).
Problem tbg(const Arguments& a, DataType dtype) {
  const int64_t h = a["h"], l = a["l"], d = a["d"];
  Tensor q = placeholder({l, h, d}, dtype, "q"), k = placeholder({l, h, d}, dtype, "k");
  Problem p;
  p.inputs = {q, k};
  p.outputs = {ops::batch_matmul(ops::transpose(q, {1, 0, 2}), ops::transpose(k, {1, 2, 0}))};
  p.flops = matmul_flops({l, l, d}, h);
  p.peers = [=](PeerSet& set) { add_tbg_peer(set, h, l, d); };
  return p;
}

}  // namespace

std::vector<SubjectKind> linalg_subjects() {
  const Parameter m{"m", "", "rows of the result"}, n{"n", "", "columns of the result"},
      k{"k", "", "length of the sums"};
  const Parameter ta = flag("ta", "1: A is stored as K x M"),
                  tb = flag("tb", "1: B is stored as N x K");
  const std::string group = "Matrix products";
  return {
      {group,
       "A (M, K) x B (K, N)",
       {"matmul",
        3,
        {m, n, k, ta, tb, flag("const_b", "1: B is constant, so packed ahead of time"),
         flag("ua", "1: A is of the unsigned type")},
        "matmul:1024x1024x1024"},
       matmul},
      {group,
       "a stack of B products",
       {"batch_matmul",
        4,
        {{"b", "", "number of products"}, m, n, k, ta, tb},
        "batch_matmul:12x128x128x64"},
       batch_matmul},
      {group,
       "x (M, K) x constant weight (N, K), plus bias",
       {"dense", 3, {m, n, k, {"bias", "1", "0: no bias", {}, 0, 1}}, "dense:128x768x3072"},
       dense},
      {group,
       "transpose and batched product: q (L, H, D) x k (L, H, D) -> (H, L, L)",
       {"tbg",
        3,
        {{"h", "", "heads"}, {"l", "", "tokens"}, {"d", "", "size of a head"}},
        "tbg:12x128x64"},
       tbg},
  };
}

}  // namespace heddle::cli
