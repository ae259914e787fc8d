// Features of loop nests small enough to count by hand.
#include "features_testing.h"
#include "heddle/lower/lower.h"

namespace heddle::testing {
namespace {

struct Add {
  explicit Add(int64_t n, const std::string& name = "A")
      : a(placeholder({n}, f32, name)), b(placeholder({n}, f32, name + "2")) {
    c = compute({n}, [&](const Axis& i) { return a(i) + b(i); }, name + "sum");
  }
  std::vector<Tensor> args() const { return {a, b, c}; }
  Tensor a, b, c;
};

struct Matmul {
  explicit Matmul(int64_t n, const std::string& name = "A")
      : a(placeholder({n, n}, f32, name)), b(placeholder({n, n}, f32, name + "2")) {
    c = ops::matmul(a, b);
  }
  std::vector<Tensor> args() const { return {a, b, c}; }
  Tensor a, b, c;
};

TEST(Features, ElementwiseAdd) {
  Add p(64);
  Row row(Schedule({p.c}), p.args(), small_target());
  EXPECT_EQ(row.count("total.flop.add"), 64);
  EXPECT_EQ(row.count("total.flop.mad"), 0);
  EXPECT_EQ(row.count("total.bytes"), 3 * 256);
  EXPECT_EQ(row.count("total.unique_bytes"), 3 * 256);
  EXPECT_EQ(row.count("store0.executions"), 64);
  EXPECT_EQ(row.count("store0.vector.lanes"), 0);
  EXPECT_EQ(row.count("store0.inner.trip"), 64);
  EXPECT_EQ(row.plain("store0.serial.loops"), 1);
  EXPECT_EQ(row.plain("store0.buf0.written"), 1);
  EXPECT_EQ(row.plain("store0.buf0.read"), 0);
  for (const char* buf : {"store0.buf0.", "store0.buf1.", "store0.buf2."}) {
    std::string prefix = buf;
    EXPECT_EQ(row.count(prefix + "bytes"), 256) << prefix;
    EXPECT_EQ(row.count(prefix + "unique_bytes"), 256) << prefix;
    EXPECT_EQ(row.count(prefix + "unique_lines"), 4) << prefix;
    EXPECT_EQ(row.count(prefix + "stride"), 4) << prefix;
    EXPECT_EQ(row.count(prefix + "reuse.count"), 0) << prefix;
    EXPECT_EQ(row.count(prefix + "reuse.bytes"), 0) << prefix;  // no reuse: nothing made up
  }
  // An operation for twelve bytes.
  EXPECT_NEAR(row.count("store0.intensity.5"), 1.0 / 12, 1e-6);
}

TEST(Features, VectorsAndThreads) {
  Add p(64);
  Schedule s({p.c});
  auto [o, i] = s[p.c].split(s[p.c].axis(0), 8);
  s[p.c].vectorize(i).parallel(o);
  Row row(s, p.args(), small_target());
  EXPECT_EQ(row.count("store0.vector.lanes"), 8);
  EXPECT_EQ(row.plain("store0.vector.fill"), 1);
  EXPECT_EQ(row.count("store0.parallel.tasks"), 8);
  EXPECT_EQ(row.plain("store0.parallel.loops"), 1);
  EXPECT_EQ(row.count("total.parallel.regions"), 1);
  EXPECT_EQ(row.plain("total.parallel.balance"), 1);
  EXPECT_EQ(row.count("total.flop.add"), 64);
  EXPECT_EQ(row.count("store0.body.arith"), 1);
  EXPECT_EQ(row.count("store0.body.loads"), 2);
  EXPECT_EQ(row.count("store0.body.stores"), 1);
  EXPECT_EQ(row.plain("store0.buf1.contiguous"), 1);
  EXPECT_EQ(row.plain("store0.buf1.unaligned"), 0);
  EXPECT_EQ(row.count("store0.buf1.stride"), 32);
  EXPECT_EQ(row.plain("total.vector"), 1);
}

TEST(Features, TasksThatDoNotDivide) {
  Add p(24);
  Schedule s({p.c});
  auto [o, i] = s[p.c].split(s[p.c].axis(0), 8);
  s[p.c].vectorize(i).parallel(o);
  Row row(s, p.args(), small_target());
  EXPECT_EQ(row.count("total.parallel.tasks"), 3);
  EXPECT_EQ(row.plain("total.parallel.balance"), 0.75);  // one core does two, the other one
}

TEST(Features, TailsAreCountedOnceAndApart) {
  Add p(20);
  Schedule s({p.c});
  auto [o, i] = s[p.c].split(s[p.c].axis(0), 8);
  (void)o;
  s[p.c].vectorize(i);
  Row row(s, p.args(), small_target());
  EXPECT_EQ(row.count("total.flop.add"), 20);
  EXPECT_EQ(row.count("store0.executions"), 20);
  EXPECT_NEAR(row.plain("store0.tail"), 4.0 / 20, 1e-6);
  EXPECT_EQ(row.count("store1.executions"), 0);  // the tail is no store of its own
}

TEST(Features, NaiveMatmul) {
  Matmul p(8);
  Row row(Schedule({p.c}), p.args(), small_target());
  EXPECT_EQ(row.count("total.flop.mad"), 512);
  EXPECT_EQ(row.count("total.flop.mul"), 0);
  EXPECT_EQ(row.count("total.flop.add"), 0);
  EXPECT_EQ(row.count("total.executions"), 512 + 64);  // and 64 zeros
  EXPECT_EQ(row.count("store0.executions"), 512);
  EXPECT_EQ(row.count("store1.executions"), 64);
  // C is read and written, and stays while k runs.
  EXPECT_EQ(row.plain("store0.buf0.read"), 1);
  EXPECT_EQ(row.plain("store0.buf0.written"), 1);
  EXPECT_EQ(row.count("store0.buf0.bytes"), 512 * 8);
  EXPECT_EQ(row.count("store0.buf0.unique_bytes"), 256);
  EXPECT_EQ(row.count("store0.buf0.stride"), 0);
  EXPECT_EQ(row.count("store0.buf0.reuse.count"), 8);
  EXPECT_EQ(row.count("store0.buf0.reuse.distance"), 1);
  EXPECT_EQ(row.plain("store0.acc.vectors"), 1);
  // One of A and B moves by an element, the other by a row; each has 4 lines.
  double strides = row.count("store0.buf1.stride") + row.count("store0.buf2.stride");
  EXPECT_EQ(strides, 4 + 32);
  for (const char* buf : {"store0.buf1.", "store0.buf2."}) {
    std::string prefix = buf;
    EXPECT_EQ(row.count(prefix + "unique_bytes"), 256);
    EXPECT_EQ(row.count(prefix + "unique_lines"), 4);
    EXPECT_EQ(row.count(prefix + "reuse.count"), 8);
  }
  // A is used again after all of k, B after all of j and k.
  double distances =
      row.count("store0.buf1.reuse.distance") + row.count("store0.buf2.reuse.distance");
  EXPECT_EQ(distances, 8 + 64);
  // All loops: 1024 operations, three matrices of 256 bytes.
  EXPECT_NEAR(row.count("store0.intensity.5"), 1024.0 / 768, 1e-4);
  // It all fits the first cache: each line comes once.
  EXPECT_EQ(row.count("store0.traffic.l1"), 768);
  EXPECT_EQ(row.count("store0.traffic.l3"), 768);
}

// A register tile of 4 rows and 2 vectors, as the templates make it.
Schedule tiled(const Matmul& p) {
  Schedule s({p.c});
  StageRef c = s[p.c], acc = c.cache_write();
  auto [i, j] = c.axes<2>();
  auto [io, ii] = c.split(i, 4);
  auto [jo, ji] = c.split(j, 16);
  auto [ju, jl] = c.split(ji, 8);
  c.reorder({io, jo, ii, ju, jl});
  c.unroll(ii).unroll(ju).vectorize(jl);
  auto [ai, aj] = acc.axes<2>();
  auto [aju, ajl] = acc.split(aj, 8);
  acc.reorder({acc.reduce_axis(0), ai, aju, ajl});
  acc.unroll(ai).unroll(aju).vectorize(ajl);
  acc.compute_at(c, jo);
  return s;
}

TEST(Features, RegisterTile) {
  Matmul p(32);
  Row row(tiled(p), p.args(), small_target());
  EXPECT_EQ(row.count("store0.flop.mad"), 32 * 32 * 32);
  EXPECT_EQ(row.count("store0.unroll.product"), 8);
  EXPECT_EQ(row.plain("store0.unroll.loops"), 2);
  EXPECT_EQ(row.count("store0.vector.lanes"), 8);
  EXPECT_EQ(row.count("store0.inner.trip"), 32);  // k
  EXPECT_EQ(row.plain("store0.acc.vectors"), 8);
  EXPECT_EQ(row.count("store0.body.arith"), 8);
  EXPECT_EQ(row.count("store0.body.loads"), 2);       // a row of B, once for all rows of the tile
  EXPECT_EQ(row.count("store0.body.broadcasts"), 4);  // a column of A
  EXPECT_EQ(row.count("store0.body.stores"), 0);      // accumulators stay in registers
  EXPECT_NEAR(row.plain("store0.body.loads_per_arith"), 6.0 / 8, 1e-6);
  EXPECT_NEAR(row.plain("store0.acc.registers"), (8 + 2 + 1) / 16.0, 1e-6);
  EXPECT_EQ(row.plain("store0.acc.independent"), 1);  // two units of four cycles
  EXPECT_EQ(row.count("total.alloc.local"), 4 * 16 * 4);
  EXPECT_EQ(row.count("total.alloc.global"), 0);
  // B comes first: it is read by vectors. Then A, one element for all lanes.
  EXPECT_EQ(row.plain("store0.buf0.contiguous"), 1);
  EXPECT_EQ(row.count("store0.buf0.stride"), 32 * 4);
  EXPECT_EQ(row.plain("store0.buf1.broadcast"), 1);
  EXPECT_EQ(row.count("store0.buf1.stride"), 4);
  EXPECT_EQ(row.count("store0.buf1.reuse.count"), 2);  // column tiles
}

TEST(Features, SameNumbersBeforeAndAfterUnrolling) {
  Matmul p(32);
  Schedule s = tiled(p);
  Row nest(s, p.args(), small_target());
  Row whole(extract_features(lower(s, p.args()).main, small_target()));
  for (const char* name :
       {"total.flop.mad", "total.executions", "total.bytes", "total.unique_bytes",
        "total.traffic.l1", "total.cycles", "store0.executions", "store0.vector.lanes",
        "store0.unroll.product", "store0.acc.vectors", "store0.acc.registers",
        "store0.body.instructions", "store0.buf0.unique_lines", "store0.buf1.stride",
        "store0.traffic.l2", "store0.intensity.5"}) {
    EXPECT_FLOAT_EQ(nest.plain(name), whole.plain(name)) << name;
  }
}

TEST(Features, ATransposeIsStrided) {
  Tensor a = placeholder({64, 64}, f32, "a");
  Tensor b = ops::transpose(a);
  Schedule s({b});
  s[b].vectorize(s[b].axis(1));
  Row row(s, {a, b}, small_target());
  EXPECT_EQ(row.plain("store0.copies"), 1);
  EXPECT_EQ(row.plain("store0.buf0.contiguous"), 1);
  EXPECT_EQ(row.plain("store0.buf1.strided"), 1);
  EXPECT_EQ(row.count("store0.buf1.body_lines"), 64);
  EXPECT_EQ(row.count("total.copied"), 2 * 64 * 64 * 4);
}

TEST(Features, FusedLoopsTouchWhatTheirPartsDid) {
  Tensor a = placeholder({16, 32}, f32, "a");
  Tensor b = compute({16, 32}, [&](const Axis& i, const Axis& j) { return a(i, j) * 2.0f; }, "b");
  Schedule plain({b}), fused({b});
  fused[b].fuse(fused[b].axis(0), fused[b].axis(1));
  Row x(plain, {a, b}, small_target()), y(fused, {a, b}, small_target());
  for (const char* name : {"total.unique_bytes", "store0.buf0.unique_lines",
                           "store0.buf1.unique_bytes", "store0.buf1.stride", "total.flop.mul"}) {
    EXPECT_EQ(x.plain(name), y.plain(name)) << name;
  }
}

TEST(Features, PaddingReadsOnlyWhatIsThere) {
  Tensor a = placeholder({8}, f32, "a");
  Tensor b =
      compute({16}, [&](const Axis& i) { return select(i < Expr(8), a(i), Expr(0.0f)); }, "b");
  Row row(Schedule({b}), {a, b}, small_target());
  EXPECT_EQ(row.count("store0.select"), 16);
  EXPECT_EQ(row.count("store0.buf1.bytes"), 8 * 4);
}

TEST(Features, SpecialFunctionsAndDivisions) {
  Tensor a = placeholder({10}, f32, "a");
  Tensor b = compute({10}, [&](const Axis& i) { return exp(a(i)) / (a(i) + 1.0f); }, "b");
  Row row(Schedule({b}), {a, b}, small_target());
  EXPECT_EQ(row.count("total.flop.special"), 10);
  EXPECT_EQ(row.count("total.flop.div"), 10);
  EXPECT_EQ(row.count("total.flop.add"), 10);
  EXPECT_EQ(row.count("store0.buf1.bytes"), 40);  // a[i] is loaded once
}

TEST(Features, NamesDoNotMatter) {
  Matmul p(24, "A"), q(24, "another_name");
  Template tp = make_template(ComputeDag({p.c}), small_target());
  Template tq = make_template(ComputeDag({q.c}), small_target());
  Config c = tp.default_config();
  EXPECT_EQ(schedule_features(tp.instantiate(c), p.args()),
            schedule_features(tq.instantiate(c), q.args()));
}

TEST(Features, CachesDecideTraffic) {
  Matmul p(256);
  Target small = small_target(), large = small_target();
  large.l1d_bytes = 4 << 20;
  Schedule s({p.c});
  Row x(s, p.args(), small), y(s, p.args(), large);
  // All three matrices fit: every line comes once.
  EXPECT_EQ(y.count("store0.traffic.l1"), 3 * 256 * 256 * 4);
  EXPECT_GT(x.count("store0.traffic.l1"), 10 * y.count("store0.traffic.l1"));
  EXPECT_EQ(x.count("store0.traffic.l3"), y.count("store0.traffic.l3"));
}

TEST(Features, AMissingArgumentIsAnError) {
  Add p(8);
  EXPECT_THROW(schedule_features(Schedule({p.c}, small_target()), {p.a, p.c}), Error);
}

TEST(Features, NothingAtAll) {
  Features row = extract_features(LoweredFunction{}, small_target());
  ASSERT_EQ(row.size(), feature_columns().size());
  for (float x : row) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace heddle::testing
