// Lesson 7: a schedule written by hand, in six steps.
//
// create_schedule writes schedules, and lesson 4 teaches it to write others. Here we write one
// ourselves, for the product of two matrices: not to beat it, but to see with a stopwatch what each
// of its decisions is for. A Schedule holds a list of steps; each step moves, cuts or marks loops,
// and none of them can change the result. What each version computes is compared with the first.
//
// The times below are of one run on your machine. The figure to look at is the last column: how
// much of the static choice's speed there is.
#include <heddle/heddle.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "common/expect.h"

using namespace heddle;

namespace {

constexpr int kSize = 512;

// C[i, j] = sum over k of A[i, k] * B[k, j]
struct Product {
  Tensor A = placeholder({kSize, kSize}, f32, "A"), B = placeholder({kSize, kSize}, f32, "B");
  Axis k = reduce_axis(kSize, "k");
  Tensor C =
      compute({kSize, kSize}, [this](Axis i, Axis j) { return sum(A(i, k) * B(k, j), k); }, "C");
};

// The machine, as far as the steps need it.
struct Sizes {
  int lanes = Target::host().vector_lanes(4);  // f32 values of a vector register
  // A tile of C that stays in registers: so many rows of so many vectors. 16 accumulators of 32
  // registers, or 8 of 16, leave room for a row of B and an element of A. The sizes here divide
  // 512; where they do not, the last tile is a smaller one, and the loops need a second copy for
  // it.
  int rows = Target::host().vector_registers >= 32 ? 8 : 4, vectors = 2;
  int columns() const { return vectors * lanes; }
};

// ---- Step 1: as it is written ------------------------------------------------------------------
//
//   for i { for j { C[i, j] = 0; for k { C[i, j] += A[i, k] * B[k, j] } } }
//
// B is read down its columns: a new cache line for every multiplication.
Schedule as_written(const Product& p) { return Schedule({p.C}); }

// ---- Step 2: vectors along j -------------------------------------------------------------------
//
// Neighbouring columns of B and C lie side by side in memory. So j is cut into vectors, and k goes
// around them: each step of k multiplies one element of A with a whole vector of B.
//
//   for i { for jv { C[i, jv..] = 0; for k { C[i, jv..] += A[i, k] * B[k, jv..] } } }
Schedule with_vectors(const Product& p, const Sizes& z) {
  Schedule s({p.C});
  StageRef c = s[p.C];
  auto [i, j] = c.axes<2>();
  auto [jv, lane] = c.split(j, z.lanes);
  c.reorder({i, jv, c.reduce_axis(0), lane});
  c.vectorize(lane);
  return s;
}

// ---- Step 3: tiles in registers ----------------------------------------------------------------
//
// In step 2 every multiply-add needs a vector of B from memory, and waits for the sum of the one
// before. A tile of C of, say, 8 rows x 2 vectors needs 2 vectors of B and 8 elements of A for 16
// multiply-adds, and its 16 sums wait for nobody. So C is cut into tiles, and each is computed by a
// stage of its own (cache_write), in the loop over tiles: a small array whose loops are unrolled,
// so that each of its elements has one known place, and is a register until the tile is done.
//
//   for it { for jt { tile = 0; for k { tile[..] += A[.., k] * B[k, ..] } C[it.., jt..] = tile } }
struct Tiles {
  StageRef c, tile;
  Loop it, jt;  // over rows and columns of tiles, in this order
};

Tiles cut_into_tiles(Schedule& s, const Product& p, const Sizes& z) {
  StageRef c = s[p.C];
  StageRef tile = c.cache_write();
  auto [i, j] = c.axes<2>();
  auto [it, row] = c.split(i, z.rows);
  auto [jt, column] = c.split(j, z.columns());
  auto [vector, lane] = c.split(column, z.lanes);
  c.reorder({it, jt, row, vector, lane});
  c.unroll(row).unroll(vector).vectorize(lane);

  auto [ti, tj] = tile.axes<2>();
  auto [tile_vector, tile_lane] = tile.split(tj, z.lanes);
  tile.reorder({tile.reduce_axis(0), ti, tile_vector, tile_lane});
  tile.unroll(ti).unroll(tile_vector).vectorize(tile_lane);
  return {c, tile, it, jt};
}

Schedule with_tiles(const Product& p, const Sizes& z) {
  Schedule s({p.C});
  Tiles t = cut_into_tiles(s, p, z);
  t.tile.compute_at(t.c, t.jt);
  return s;
}

// ---- Step 4: B packed --------------------------------------------------------------------------
//
// From one k to the next a tile reads B a whole row further on: another page every other time, and
// the rows that a panel of columns needs push each other out of L1. A copy of B that
// the tiles read in place of it (cache_read) may lie in memory as we like (layout): panel by panel,
// each as wide as a tile, and in a panel row by row. The copy costs 512^2 moves, and saves 512^3.
struct Packed {
  StageRef copy;
  Loop panel;
};

Packed pack(Schedule& s, const Product& p, const Sizes& z, StageRef reader) {
  StageRef packed = s[p.B].cache_read({reader});
  packed.layout({{1, z.columns()}, {0}, {1, 1, z.columns()}});
  auto [k, j] = packed.axes<2>();
  auto [panel, column] = packed.split(j, z.columns());
  auto [vector, lane] = packed.split(column, z.lanes);
  packed.reorder({panel, k, vector, lane});
  packed.unroll(vector).vectorize(lane);
  return {packed, panel};
}

Schedule with_packing(const Product& p, const Sizes& z) {
  Schedule s({p.C});
  Tiles t = cut_into_tiles(s, p, z);
  t.tile.compute_at(t.c, t.jt);
  pack(s, p, z, t.tile);
  return s;
}

// ---- Step 5: tiles in an order that the caches like --------------------------------------------
//
// With the rows of tiles outside, all of B passes by for each of them. With the columns outside, a
// panel of B stays in the cache while all rows of A pass by, and only once for each panel.
Schedule with_order(const Product& p, const Sizes& z) {
  Schedule s({p.C});
  Tiles t = cut_into_tiles(s, p, z);
  t.c.reorder({t.jt, t.it});
  t.tile.compute_at(t.c, t.it);
  pack(s, p, z, t.tile);
  return s;
}

// ---- Step 6: threads ---------------------------------------------------------------------------
//
// The iterations of a parallel loop are shared out among the threads. The rows of tiles are cut
// into as many blocks as there are threads, each with the loops of step 5 inside; the panels are
// packed by all threads together.
Schedule with_threads(const Product& p, const Sizes& z) {
  Schedule s({p.C});
  Tiles t = cut_into_tiles(s, p, z);
  const int rows_of_tiles = (kSize + z.rows - 1) / z.rows;
  auto [block, it] = t.c.split(t.it, (rows_of_tiles + num_threads() - 1) / num_threads());
  t.c.reorder({block, t.jt, it});
  t.c.parallel(block);
  t.tile.compute_at(t.c, it);
  Packed packed = pack(s, p, z, t.tile);
  packed.copy.parallel(packed.panel);
  return s;
}

}  // namespace

int main() {
  const Product p;
  const Sizes z;
  const NDArray a = random_like(p.A, 1), b = random_like(p.B, 2);
  NDArray expected = zeros_like(p.C), c = zeros_like(p.C);

  struct Version {
    const char* name;
    Schedule schedule;
  };
  const std::vector<Version> versions{{"1 as written", as_written(p)},
                                      {"2 vectors along j", with_vectors(p, z)},
                                      {"3 tiles in registers", with_tiles(p, z)},
                                      {"4 B packed", with_packing(p, z)},
                                      {"5 columns of tiles outside", with_order(p, z)},
                                      {"6 threads", with_threads(p, z)},
                                      {"create_schedule", create_schedule({p.C})}};

  // Each is built and checked. The sums come in the order in which they are written or, in tiles,
  // in the same order with multiply-adds: results differ by rounding.
  std::vector<Kernel> kernels;
  for (const Version& v : versions) {
    kernels.push_back(build(v.schedule, {p.A, p.B, p.C}));
    c.fill(-1);
    kernels.back()(a, b, c);
    if (kernels.size() == 1) expected = c.copy();
    const Difference difference = compare(c, expected, 1e-4, 1e-4);
    HEDDLE_EXPECT(difference.ok(), std::string(v.name) + ": " + describe(difference, c));
  }

  // In turn, so that a busy moment of the machine hits all of them; of each the best.
  std::vector<double> seconds(kernels.size(), 1e30);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kernels.size(); ++i) {
      const Measurement m = measure([&] { kernels[i](a, b, c); }, 0.03, 100);
      seconds[i] = std::min(seconds[i], m.min_s);
    }
  }
  const double flops = 2.0 * kSize * kSize * kSize;
  std::printf("%-28s %10s %9s %10s\n", "", "ms", "GFLOP/s", "of static");
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::printf("%-28s %10.3f %9.1f %8.0f %%\n", versions[i].name, seconds[i] * 1e3,
                flops / seconds[i] * 1e-9, 100 * seconds.back() / seconds[i]);
  }

  // ---- What is left -----------------------------------------------------------------------------
  //
  // A schedule is data. This is the last one, as steps; to_json() keeps it, and a record in a log
  // of the tuner holds nothing else. What create_schedule does beyond it follows from sizes: how
  // large tiles and blocks are for this shape, whether packing pays, what happens to the rows and
  // columns that no tile divides (none of it is a test in an inner loop), and how few rows feed
  // many threads. `std::cout << create_schedule({C})` shows its steps, lesson 2 the reasons.
  std::printf("\nstep 6, as steps:\n%s", versions[5].schedule.to_text().c_str());
  const Schedule again = Schedule::from_json(versions[5].schedule.to_json(), ComputeDag({p.C}));
  HEDDLE_EXPECT(again.to_text() == versions[5].schedule.to_text(),
                "a schedule comes back from JSON");
  return 0;
}
