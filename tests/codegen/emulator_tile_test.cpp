// Tile operations of the GPU emulator against plain matrix products.
#include <bit>
#include <cmath>

#include "codegen/emulator_testing.h"

namespace heddle::testing {
namespace {

struct Shape {
  DataType a, b, d;
  int k;
};

// The elements that a lane holds, as the PTX ISA lists them case by case. The emulator computes
// them in another way.
struct Fragments {
  std::function<std::pair<Expr, Expr>(Expr group, Expr in_group, int i)> a, b;
  int a_count, b_count;
};

Fragments fragments(int k) {
  if (k == 16) {
    return {[](Expr g, Expr t, int i) {
              const bool low = (i >= 0 && i < 2) || (i >= 4 && i < 6);
              return std::pair(low ? g : g + 8, i < 4 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8);
            },
            [](Expr g, Expr t, int i) {
              return std::pair(i < 2 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8, g);
            },
            8, 4};
  }
  if (k == 8) {
    return {[](Expr g, Expr t, int i) {
              return std::pair(i == 0 || i == 2 ? g : g + 8, i == 0 || i == 1 ? t : t + 4);
            },
            [](Expr g, Expr t, int i) { return std::pair(i == 0 ? t : t + 4, g); }, 4, 2};
  }
  return {[](Expr g, Expr t, int i) {
            const bool low = (i >= 0 && i < 4) || (i >= 8 && i < 12);
            return std::pair(low ? g : g + 8, i < 8 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16);
          },
          [](Expr g, Expr t, int i) {
            return std::pair(i < 4 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16, g);
          },
          16, 8};
}

Stmt one_mma(const OneKernel& kernel, const Shape& s, int64_t lanes) {
  const Fragments f = fragments(s.k);
  const Buffer a = local("a", s.a, f.a_count), b = local("b", s.b, f.b_count),
               d = local("d", s.d, 4);
  Stmt body = threads(64, [&](Var t) {
    const Expr lane = t % 32, group = floordiv(lane, 4), in_group = lane % 4;
    std::vector<Stmt> stmts;
    for (int i = 0; i < f.a_count; ++i) {
      const auto [row, col] = f.a(group, in_group, i);
      stmts.push_back(store(a, i, at(kernel[0], row * s.k + col)));
    }
    for (int i = 0; i < f.b_count; ++i) {
      const auto [row, col] = f.b(group, in_group, i);
      stmts.push_back(store(b, i, at(kernel[1], row * 8 + col)));
    }
    const auto place = [&](int i) {
      return (i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1);
    };
    for (int i = 0; i < 4; ++i) stmts.push_back(store(d, i, at(kernel[2], place(i))));
    stmts.push_back(
        make_if(t < lanes, make_tile_op(tile::Mma{16, 8, s.k}, {{d, 0}, {a, 0}, {b, 0}}), {}));
    for (int i = 0; i < 4; ++i) {
      stmts.push_back(make_if(t < 32, store(kernel[3], place(i), at(d, i)), {}));
    }
    return seq(std::move(stmts));
  });
  return make_allocate(a, make_allocate(b, make_allocate(d, std::move(body))));
}

double tf32(double v) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(v)) >> 13 << 13);
}

TEST(EmulatorTiles, MmaOfEveryType) {
  for (const Shape& s : {Shape{f16, f16, f32, 16}, Shape{f16, f16, f16, 16},
                         Shape{bf16, bf16, f32, 16}, Shape{f32, f32, f32, 8},
                         Shape{i8, i8, i32, 32}, Shape{u8, u8, i32, 32}, Shape{u8, i8, i32, 32}}) {
    SCOPED_TRACE(to_string(s.a) + " x " + to_string(s.b) + " -> " + to_string(s.d));
    const NDArray a = NDArray::random({16 * s.k}, s.a, 1), b = NDArray::random({s.k * 8}, s.b, 2),
                  c = NDArray::random({16 * 8}, s.d, 3), d = NDArray::zeros({16 * 8}, s.d);
    OneKernel kernel({a, b, c, d}, 1, 64);
    kernel.run(one_mma(kernel, s, 64), 3);
    const double eps = s.d == i32 ? 0 : s.d == f16 ? 2e-3 : 1e-6;
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        double want = c.get(i * 8 + j);
        for (int k = 0; k < s.k; ++k) {
          const double x = a.get(i * s.k + k), y = b.get(k * 8 + j);
          want += s.a == f32 ? tf32(x) * tf32(y) : x * y;
        }
        EXPECT_NEAR(d.get(i * 8 + j), want, eps * std::max(1.0, std::abs(want)));
      }
    }
  }
}

TEST(EmulatorTiles, MmaMistakes) {
  const Shape s{f16, f16, f32, 16};
  OneKernel k({NDArray::random({256}, f16, 1), NDArray::random({128}, f16, 2),
               NDArray::random({128}, f32, 3), NDArray::zeros({128}, f32)},
              1, 64);
  EXPECT_THAT(k.error(one_mma(k, s, 40)),
              HasSubstr("an operation of a warp that 8 of the warp's 32 lanes reach"));
  const Buffer a = local("a", f16, 8), b = local("b", f16, 4), d = local("d", f32, 4),
               wide = local("wide", f64, 4);
  const auto mma = [&](const Buffer& to, int64_t from, int kk) {
    return make_allocate(
        a, make_allocate(
               b, make_allocate(
                      to,
                      seq({serial(8, [&](Var i) { return store(a, i, make_float(f16, 1)); }),
                           serial(4, [&](Var i) { return store(b, i, make_float(f16, 1)); }),
                           serial(4, [&](Var i) { return store(to, i, make_float(to->dtype, 1)); }),
                           make_tile_op(tile::Mma{16, 8, kk}, {{to, 0}, {a, from}, {b, 0}})}))));
  };
  EXPECT_EQ(k.error(mma(d, 0, 16)), "no error");
  EXPECT_THAT(k.error(mma(d, 1, 16)), HasSubstr("'a' at [8] (flat), outside its 8 elements"));
  EXPECT_THAT(k.error(mma(d, 0, 8)), HasSubstr("there is no such mma: f32 += f16 * f16"));
  EXPECT_THAT(k.error(mma(wide, 0, 16)), HasSubstr("there is no such mma: f64 += f16 * f16"));
  const Buffer r = local("r", f16, 8), q = local("q", f16, 4), e = local("e", f32, 4);
  EXPECT_THAT(k.error(make_allocate(
                  r, make_allocate(q, make_allocate(e, make_tile_op(tile::Mma{16, 8, 16},
                                                                    {{e, 0}, {r, 0}, {q, 0}}))))),
              HasSubstr("read of 'r'[0], which was never written"));
  k.kernel.block = {48, 1, 1};
  EXPECT_THAT(k.error(mma(d, 0, 16)), HasSubstr("fewer than 32 lanes"));
}

// Each lane's two elements of each matrix go to out[matrix][lane][2]. Rows lie 16 elements apart.
Stmt load_matrices(const OneKernel& k, int count, bool transposed, int pitch) {
  const Buffer s = shared("s", k[0]->dtype, 32 * 16), r = local("r", k[0]->dtype, 2 * count);
  return make_allocate(
      s, make_allocate(
             r, threads(32, [&](Var t) {
               return seq(
                   {serial(16, [&](Var i) { return store(s, i * 32 + t, at(k[0], i * 32 + t)); }),
                    barrier(),
                    make_tile_op(tile::LoadMatrix{count, transposed}, {{r, 0}, {s, t * pitch}}),
                    serial(count, [&](Var m) {
                      return serial(2, [&](Var i) {
                        return store(k[1], m * 64 + t * 2 + i, at(r, m * 2 + i));
                      });
                    })});
             })));
}

TEST(EmulatorTiles, LoadMatrix) {
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      NDArray in = NDArray::empty({512}, bf16), out = NDArray::zeros({count * 64}, bf16);
      for (int i = 0; i < 512; ++i) in.set(i, i % 16 + (i / 16) * 8);  // row * 8 + column: exact
      OneKernel k({in, out}, 1, 32);
      k.run(load_matrices(k, count, transposed, 16));
      for (int m = 0; m < count; ++m) {
        for (int lane = 0; lane < 32; ++lane) {
          for (int i = 0; i < 2; ++i) {
            const int major = lane / 4, minor = lane % 4 * 2 + i;
            const int row = transposed ? minor : major, col = transposed ? major : minor;
            EXPECT_EQ(out.get(m * 64 + lane * 2 + i), (m * 8 + row) * 8 + col)
                << count << transposed << m << " lane " << lane;
          }
        }
      }
    }
  }
}

// Rows of 16 bytes, whatever they are: 32 bits to each lane.
TEST(EmulatorTiles, LoadMatrixOfOtherTypes) {
  for (const DataType t : {i8, f32}) {
    const int pack = 32 / t.bits, row = 4 * pack;
    NDArray in = NDArray::empty({8 * row}, t), out = NDArray::zeros({8 * row}, t);
    for (int i = 0; i < 8 * row; ++i) in.set(i, i % 128);
    OneKernel k({in, out}, 1, 32);
    const Buffer s = shared("s", t, 8 * row), r = local("r", t, pack);
    k.run(make_allocate(
        s, make_allocate(
               r, threads(32, [&](Var lane) {
                 return seq(
                     {serial(pack,
                             [&](Var i) {
                               return store(s, lane * pack + i, at(k[0], lane * pack + i));
                             }),
                      barrier(),
                      make_tile_op(tile::LoadMatrix{1, false},
                                   {{r, 0}, {s, floormod(lane, Expr(8)) * row}}),
                      serial(pack, [&](Var i) { return store(k[1], lane * pack + i, at(r, i)); })});
               }))));
    for (int i = 0; i < 8 * row; ++i) EXPECT_EQ(out.get(i), i % 128) << to_string(t) << i;
  }
}

TEST(EmulatorTiles, RoundTf32) {
  // Half a unit goes away from zero, less than that towards it; what is no number stays.
  const std::vector<std::pair<double, double>> cases{{1, 1},
                                                     {1 + 0x1p-11, 1 + 0x1p-10},
                                                     {-1 - 0x1p-11, -1 - 0x1p-10},
                                                     {1 + 0x1.ffp-12, 1},
                                                     {0x1.ffffp10, 0x1p11},
                                                     {INFINITY, INFINITY}};
  NDArray in = NDArray::zeros({32}, f32), out = NDArray::zeros({32}, f32);
  for (size_t i = 0; i < cases.size(); ++i) in.set(static_cast<int64_t>(i), cases[i].first);
  OneKernel k({in, out}, 1, 32);
  const Buffer r = local("r", f32, 1);
  k.run(make_allocate(r, threads(32, [&](Var lane) {
                        return seq({store(r, 0, at(k[0], lane)),
                                    make_tile_op(tile::RoundTf32{1}, {{r, 0}}),
                                    store(k[1], lane, at(r, 0))});
                      })));
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(out.get(static_cast<int64_t>(i)), cases[i].second) << cases[i].first;
}

TEST(EmulatorTiles, LoadMatrixMistakes) {
  OneKernel k({NDArray::random({512}, f16, 1), NDArray::zeros({256}, f16)}, 1, 32);
  EXPECT_THAT(k.error(load_matrices(k, 4, false, 12)),
              AllOf(HasSubstr("ldmatrix of a row at 's'[12], which is not aligned to 16 bytes"),
                    HasSubstr("thread (1, 0, 0)")));
  EXPECT_THAT(k.error(load_matrices(k, 4, false, 24)), HasSubstr("outside its 512 elements"));
  OneKernel wide({NDArray::random({512}, f32, 1), NDArray::zeros({256}, f32)}, 1, 32);
  EXPECT_THAT(wide.error(load_matrices(wide, 1, true, 16)),
              HasSubstr("transposes 16-bit elements"));
}

}  // namespace
}  // namespace heddle::testing
