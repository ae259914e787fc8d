// GPU programs written by hand in the thread form, as lowering would make them.
#pragma once

#include <string>
#include <vector>

#include "heddle/lower/gpu_program.h"

namespace heddle::testing {

inline Buffer gpu_buffer(const std::string& name, DataType t, int64_t n,
                         Scope scope = Scope::Argument) {
  return Buffer::make(name, t, {Expr(n)}, scope);
}

inline GpuProgram one_kernel(GpuKernel k) {
  GpuProgram p;
  p.name = k.name;
  p.args = k.args;
  p.main.push_back(std::move(k));
  return p;
}

inline Stmt thread_loop(LoopKind kind, const Var& v, int64_t extent, Stmt body) {
  return make_for(v, Expr(extent), kind, std::move(body));
}

/// out[i] = in[i] for `n` elements, a thread each.
inline GpuKernel copy_with_tail(int64_t n) {
  GpuKernel k;
  k.name = "copy";
  const Buffer in = gpu_buffer("in", f32, n), out = gpu_buffer("out", f32, n);
  k.args = {in, out};
  Var bx("bx"), tx("tx");
  const Expr i = bx * Expr(256) + tx;
  Stmt body = make_if(i < Expr(n), make_store(out, {i}, make_load(in, {i})), {});
  k.grid[0] = (n + 255) / 256;
  k.block[0] = 256;
  k.body =
      thread_loop(LoopKind::BlockX, bx, k.grid[0], thread_loop(LoopKind::ThreadX, tx, 256, body));
  return k;
}

/// out = x * sigmoid(1.702 x) of `t`, 16 bytes at a time, stored past the caches.
inline GpuKernel vector_gelu(DataType t) {
  GpuKernel k;
  k.name = "gelu_" + to_string(t);
  const int lanes = 16 / t.bytes();
  const int64_t n = int64_t{1} << 20;
  const Buffer x = gpu_buffer("x", t, n), out = gpu_buffer("out", t, n);
  k.args = {x, out};
  Var bx("bx"), tx("tx");
  const Expr i = make_ramp((bx * Expr(256) + tx) * Expr(lanes), Expr(1), lanes);
  const Expr v = make_load(x, {i});
  const Expr one = make_const(t.with_lanes(lanes), 1),
             scale = make_const(t.with_lanes(lanes), -1.702);
  const Expr gelu = v / (one + make_unary(UnaryOp::Exp, scale * v));
  k.grid[0] = n / (256 * lanes);
  k.block[0] = 256;
  k.body = thread_loop(
      LoopKind::BlockX, bx, k.grid[0],
      thread_loop(LoopKind::ThreadX, tx, 256, make_store(out, {i}, gelu, StoreHint::NonTemporal)));
  return k;
}

/// out[row] = the sum of x[row][0..4096): a block a row, shuffles, then shared memory.
inline GpuKernel row_sum() {
  GpuKernel k;
  k.name = "row_sum";
  const Buffer x = gpu_buffer("x", f32, 512 * 4096), out = gpu_buffer("out", f32, 512);
  const Buffer acc = gpu_buffer("acc", f32, 1, Scope::Local);
  const Buffer parts = gpu_buffer("parts", f32, 8, Scope::Shared);
  k.args = {x, out};
  Var bx("bx"), tx("tx"), t2("t"), t3("t"), r("r");
  const auto add = [&](Expr v) {
    return make_store(acc, {Expr(0)}, make_load(acc, {Expr(0)}) + v);
  };
  std::vector<Stmt> body;
  body.push_back(make_store(acc, {Expr(0)}, Expr(0.0f)));
  const Expr i = make_ramp(bx * Expr(4096) + r * Expr(1024) + tx * Expr(4), Expr(1), 4);
  const Buffer v = gpu_buffer("v", f32, 4, Scope::Local);
  Var j("j");
  std::vector<Stmt> step{make_store(v, {make_ramp(Expr(0), Expr(1), 4)}, make_load(x, {i})),
                         make_for(j, Expr(4), LoopKind::Serial, add(make_load(v, {j.expr()})))};
  std::vector<Stmt> warp{
      make_for(r, Expr(4), LoopKind::Serial, make_allocate(v, make_block(std::move(step))))};
  for (int lane = 16; lane > 0; lane /= 2) {
    warp.push_back(add(make_shuffle(make_load(acc, {Expr(0)}), lane)));
  }
  warp.push_back(make_if(floormod(tx, Expr(32)) == Expr(0),
                         make_store(parts, {floordiv(tx, Expr(32))}, make_load(acc, {Expr(0)})),
                         {}));
  body.push_back(thread_loop(LoopKind::ThreadX, tx, 256, make_block(std::move(warp))));
  body.push_back(make_sync(SyncKind::Block));
  std::vector<Stmt> last{make_store(acc, {Expr(0)}, make_load(parts, {t2.expr()}))};
  for (int lane = 4; lane > 0; lane /= 2) {
    last.push_back(add(make_shuffle(make_load(acc, {Expr(0)}), lane)));
  }
  body.push_back(thread_loop(LoopKind::ThreadX, t2, 8, make_block(std::move(last))));
  body.push_back(thread_loop(LoopKind::ThreadX, t3, 1,
                             make_store(out, {bx.expr()}, make_load(acc, {Expr(0)}))));
  k.grid[0] = 512;
  k.block[0] = 256;
  k.shared = {{parts, 0}};
  k.shared_bytes = 32;
  k.body = thread_loop(LoopKind::BlockX, bx, 512,
                       make_allocate(acc, make_allocate(parts, make_block(std::move(body)))));
  return k;
}

/// c = a * b of f32 1000 x 1024 x 1024 without tensor cores: tiles of 128 x 128 x 8, 8 x 8 a
/// thread, two stages of shared memory filled by asynchronous copies. `a` comes transposed; the
/// last rows of a tile are zeros.
inline GpuKernel simt_matmul() {
  constexpr int64_t kM = 1000, kN = 1024, kK = 1024, kTile = 128, kDepth = 8;
  GpuKernel k;
  k.name = "matmul";
  const Buffer a = gpu_buffer("a", f32, kK * kM), b = gpu_buffer("b", f32, kK * kN);
  const Buffer c = gpu_buffer("c", f32, kM * kN);
  const Buffer as = gpu_buffer("a_s", f32, 2 * kDepth * kTile, Scope::Shared);
  const Buffer bs = gpu_buffer("b_s", f32, 2 * kDepth * kTile, Scope::Shared);
  const Buffer acc = gpu_buffer("acc", f32, 64, Scope::Local);
  const Buffer ar = gpu_buffer("a_r", f32, 8, Scope::Local),
               br = gpu_buffer("b_r", f32, 8, Scope::Local);
  k.args = {a, b, c};
  Var bx("bx"), by("by"), tx("tx"), ty("ty"), ko("ko");
  const auto fill = [&](const Expr& tile) {
    Var t("t"), u("u");
    // 256 threads, four elements each: 8 rows of 32 vectors.
    const Expr thread = u * Expr(16) + t, row = floordiv(thread, Expr(32)),
               col = floormod(thread, Expr(32)) * Expr(4);
    const auto place = [&](const Expr& stage) {
      return make_ramp(floormod(stage, Expr(2)) * Expr(kDepth * kTile) + row * Expr(kTile) + col,
                       Expr(1), 4);
    };
    const Expr k_row = tile * Expr(kDepth) + row, m = by * Expr(kTile) + col;
    const Expr from_a = make_load(a, {make_ramp(k_row * Expr(kM) + m, Expr(1), 4)});
    const Expr from_b =
        make_load(b, {make_ramp(k_row * Expr(kN) + bx * Expr(kTile) + col, Expr(1), 4)});
    std::vector<Stmt> s{
        make_store(as, {place(tile)},
                   make_select(m < Expr(kM), from_a, make_const(f32.with_lanes(4), 0)),
                   StoreHint::Async),
        make_store(bs, {place(tile)}, from_b, StoreHint::Async), make_sync(SyncKind::AsyncCommit)};
    return thread_loop(LoopKind::ThreadY, u, 16,
                       thread_loop(LoopKind::ThreadX, t, 16, make_block(std::move(s))));
  };
  const auto both = [](std::vector<Stmt> s) { return make_block(std::move(s)); };
  Var i("i"), j("j"), kk("k"), i2("i"), j2("j"), i3("i"), h("h"), p("p");
  const Expr stage = floormod(ko, Expr(2)) * Expr(kDepth * kTile) + kk * Expr(kTile);
  const auto regs = [](const Expr& half) { return make_ramp(half * Expr(4), Expr(1), 4); };
  Var q("q");
  Stmt inner = both(
      {make_for(q, Expr(2), LoopKind::Unrolled,
                both({make_store(ar, {regs(q)},
                                 make_load(as, {make_ramp(stage + q * Expr(64) + ty * Expr(4),
                                                          Expr(1), 4)})),
                      make_store(br, {regs(q)},
                                 make_load(bs, {make_ramp(stage + q * Expr(64) + tx * Expr(4),
                                                          Expr(1), 4)}))})),
       make_for(i, Expr(8), LoopKind::Serial,
                make_for(j, Expr(8), LoopKind::Serial,
                         make_store(acc, {i * Expr(8) + j},
                                    make_load(acc, {i * Expr(8) + j}) +
                                        make_load(ar, {i.expr()}) * make_load(br, {j.expr()}))))});
  Stmt compute =
      make_allocate(ar, make_allocate(br, make_for(kk, Expr(kDepth), LoopKind::Unrolled, inner)));
  Stmt loop = make_for(ko, Expr(kK / kDepth), LoopKind::Serial,
                       both({make_if(ko + Expr(1) < Expr(kK / kDepth), fill(ko + Expr(1)), {}),
                             make_sync(SyncKind::AsyncWait, 1), make_sync(SyncKind::Block), compute,
                             make_sync(SyncKind::Block)}));
  const Expr m = by * Expr(kTile) + h * Expr(64) + ty * Expr(4) + i3;
  Stmt finish = make_for(
      h, Expr(2), LoopKind::Unrolled,
      make_for(
          i3, Expr(4), LoopKind::Unrolled,
          make_if(
              m < Expr(kM),
              make_for(p, Expr(2), LoopKind::Unrolled,
                       make_store(
                           c,
                           {make_ramp(m * Expr(kN) + bx * Expr(kTile) + p * Expr(64) + tx * Expr(4),
                                      Expr(1), 4)},
                           make_load(acc, {make_ramp((h * Expr(4) + i3) * Expr(8) + p * Expr(4),
                                                     Expr(1), 4)}))),
              {})));
  Stmt zero = make_for(i2, Expr(64), LoopKind::Serial, make_store(acc, {i2.expr()}, Expr(0.0f)));
  Stmt body = make_allocate(acc, both({zero, fill(Expr(0)), loop, finish}));
  body = thread_loop(LoopKind::ThreadY, ty, 16, thread_loop(LoopKind::ThreadX, tx, 16, body));
  body = make_allocate(as, make_allocate(bs, body));
  k.grid = {8, 8, 1};
  k.block = {16, 16, 1};
  k.shared = {{as, 0}, {bs, 2 * kDepth * kTile * 4}};
  k.shared_bytes = 2 * 2 * kDepth * kTile * 4;
  k.body = thread_loop(LoopKind::BlockY, by, 8, thread_loop(LoopKind::BlockX, bx, 8, body));
  return k;
}

/// c = a * b^T of 16-bit `t`, 256 x 256 x 256, f32 sums: 64 x 64 x 32 a block of four warps, each
/// 32 x 32, by ldmatrix and mma.sync.
inline GpuKernel mma_matmul(DataType t) {
  constexpr int64_t kN = 256, kTile = 64, kDepth = 32, kRow = kDepth + 8;
  GpuKernel k;
  k.name = "mma_" + to_string(t);
  const Buffer a = gpu_buffer("a", t, kN * kN), b = gpu_buffer("b", t, kN * kN);
  const Buffer c = gpu_buffer("c", t, kN * kN);
  const Buffer as = gpu_buffer("a_s", t, kTile * kRow, Scope::Shared);
  const Buffer bs = gpu_buffer("b_s", t, kTile * kRow, Scope::Shared);
  const Buffer acc = gpu_buffer("acc", f32, 32, Scope::Local);
  const Buffer fa = gpu_buffer("fa", t, 16, Scope::Local),
               fb = gpu_buffer("fb", t, 16, Scope::Local);
  k.args = {a, b, c};
  Var bx("bx"), by("by"), tx("tx"), ko("ko"), z("z"), r("r"), ks("ks");
  const Expr lane = floormod(tx, Expr(32)), warp = floordiv(tx, Expr(32));
  const Expr wm = floordiv(warp, Expr(2)) * Expr(32), wn = floormod(warp, Expr(2)) * Expr(32);
  // 128 threads copy 64 rows of four 16-byte pieces: two each.
  const Expr row = floordiv(tx, Expr(4)) + r * Expr(32), col = floormod(tx, Expr(4)) * Expr(8);
  const auto copy = [&](const Buffer& to, const Buffer& from, const Expr& origin) {
    return make_store(
        to, {make_ramp(row * Expr(kRow) + col, Expr(1), 8)},
        make_load(from,
                  {make_ramp((origin + row) * Expr(kN) + ko * Expr(kDepth) + col, Expr(1), 8)}),
        StoreHint::Async);
  };
  Stmt fill = make_for(r, Expr(2), LoopKind::Unrolled,
                       make_block({copy(as, a, by * Expr(kTile)), copy(bs, b, bx * Expr(kTile))}));
  Var mi("mi"), ni("ni"), mj("mi"), nj("ni");
  // Four matrices: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15.
  const auto tile_row = [&](const Expr& origin) { return origin + floormod(lane, Expr(16)); };
  const Expr k_at = ks * Expr(16) + floordiv(lane, Expr(16)) * Expr(8);
  Stmt load_a = make_for(
      mi, Expr(2), LoopKind::Unrolled,
      make_tile_op(tile::LoadMatrix{4, false},
                   {{fa, mi * Expr(8)}, {as, tile_row(wm + mi * Expr(16)) * Expr(kRow) + k_at}}));
  // b by rows of n: matrices are n 0-7 at k 0-7, n 0-7 at k 8-15, then n 8-15.
  const Expr n_row = floordiv(lane, Expr(16)) * Expr(8) + floormod(lane, Expr(8));
  const Expr kb = ks * Expr(16) + floormod(floordiv(lane, Expr(8)), Expr(2)) * Expr(8);
  Stmt load_b = make_for(
      ni, Expr(2), LoopKind::Unrolled,
      make_tile_op(tile::LoadMatrix{4, false},
                   {{fb, ni * Expr(8)}, {bs, (wn + ni * Expr(16) + n_row) * Expr(kRow) + kb}}));
  Stmt mma = make_for(
      mj, Expr(2), LoopKind::Unrolled,
      make_for(nj, Expr(4), LoopKind::Unrolled,
               make_tile_op(
                   tile::Mma{16, 8, 16},
                   {{acc, mj * Expr(16) + nj * Expr(4)}, {fa, mj * Expr(8)}, {fb, nj * Expr(4)}})));
  Stmt steps = make_for(ks, Expr(2), LoopKind::Unrolled, make_block({load_a, load_b, mma}));
  Stmt loop = make_for(
      ko, Expr(kN / kDepth), LoopKind::Serial,
      make_block({fill, make_sync(SyncKind::AsyncCommit), make_sync(SyncKind::AsyncWait, 0),
                  make_sync(SyncKind::Block), steps, make_sync(SyncKind::Block)}));
  Var i("i"), j("j"), h("h");
  const Expr out_row = by * Expr(kTile) + wm + i * Expr(16) + h * Expr(8) + floordiv(lane, Expr(4));
  const Expr out_col = bx * Expr(kTile) + wn + j * Expr(8) + floormod(lane, Expr(4)) * Expr(2);
  Stmt finish = make_for(
      i, Expr(2), LoopKind::Unrolled,
      make_for(j, Expr(4), LoopKind::Unrolled,
               make_for(h, Expr(2), LoopKind::Unrolled,
                        make_store(
                            c, {make_ramp(out_row * Expr(kN) + out_col, Expr(1), 2)},
                            cast(t.with_lanes(2),
                                 make_load(acc, {make_ramp(i * Expr(16) + j * Expr(4) + h * Expr(2),
                                                           Expr(1), 2)}))))));
  Stmt zero = make_for(z, Expr(32), LoopKind::Serial, make_store(acc, {z.expr()}, Expr(0.0f)));
  Stmt body =
      make_allocate(acc, make_allocate(fa, make_allocate(fb, make_block({zero, loop, finish}))));
  body = make_allocate(as, make_allocate(bs, thread_loop(LoopKind::ThreadX, tx, 128, body)));
  k.grid = {4, 4, 1};
  k.block = {128, 1, 1};
  k.shared = {{as, 0}, {bs, kTile * kRow * 2}};
  k.shared_bytes = 2 * kTile * kRow * 2;
  k.body = thread_loop(LoopKind::BlockY, by, 4, thread_loop(LoopKind::BlockX, bx, 4, body));
  return k;
}

}  // namespace heddle::testing
