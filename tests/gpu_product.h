// A matrix product for a GPU in shared tiles, written by hand: the subject of tests of lowering.
#pragma once

#include "heddle/dsl/tensor.h"
#include "heddle/schedule/schedule.h"

namespace heddle::testing {

inline constexpr LoopKind BX = LoopKind::BlockX, BY = LoopKind::BlockY, TX = LoopKind::ThreadX,
                          TY = LoopKind::ThreadY;

inline Target a_gpu() { return Target::parse("cuda -gpu=h200"); }

struct TiledProduct {
  Tensor a, b, c;
  TiledProduct(int m, int n, int k) {
    a = placeholder({m, k}, f32, "A");
    b = placeholder({k, n}, f32, "B");
    Axis r = reduce_axis(k, "k");
    c = compute({m, n}, [&](Axis i, Axis j) { return sum(a(i, r) * b(r, j), r); }, "C");
  }
  std::vector<Tensor> args() const { return {a, b, c}; }
  // Tiles of 16 x 16, 4 x 8 threads of 4 x 2 each; operands in shared memory, and of those what a
  // step needs in registers, loaded a step ahead, where asked for.
  Schedule tiled(int copies, bool registers_ahead = false) const {
    Schedule s({c}, a_gpu());
    StageRef out = s[c], acc = out.cache_write();
    auto [i, j] = out.axes<2>();
    auto [io, ii] = out.split(i, 16);
    auto [jo, ji] = out.split(j, 16);
    auto [ty, mi] = out.split(ii, 4);
    auto [tx, ni] = out.split(ji, 2);
    out.reorder({io, jo, ty, tx, mi, ni});
    out.bind(io, BY).bind(jo, BX).bind(ty, TY).bind(tx, TX);
    acc.compute_at(out, jo);
    auto [ai, aj] = acc.axes<2>();
    auto [ko, ki] = acc.split(acc.reduce_axis(0), 8);
    auto [aty, ami] = acc.split(ai, 4);
    auto [atx, ani] = acc.split(aj, 2);
    acc.reorder({ko, aty, atx, ki, ami, ani});
    acc.bind(aty, TY).bind(atx, TX);
    for (const Tensor& t : {a, b}) {
      StageRef copy = s[t].cache_read({acc});
      copy.compute_at(acc, ko).set_scope(Scope::Shared).multi_buffer(copies);
      auto [o, x] = copy.split(copy.fuse(copy.all_axes()), 8);
      auto [rest, y] = copy.split(o, 4);
      (void)rest;
      copy.bind(x, TX).bind(y, TY);
      if (registers_ahead) copy.cache_read({acc}).compute_at(acc, ki).multi_buffer(2);
    }
    return s;
  }
};

}  // namespace heddle::testing
