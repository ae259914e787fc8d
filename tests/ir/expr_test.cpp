#include "heddle/ir/expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heddle/ir/print.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

using testing::HasSubstr;

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User) << e.message;
    return e.message + " | " + e.help;
  }
  return "no error";
}

int64_t int_of(const Expr& e) {
  const int64_t* v = as_int(e);
  EXPECT_TRUE(v) << e;
  return v ? *v : -999;
}

double float_of(const Expr& e) {
  const FloatImm* v = e.as<FloatImm>();
  EXPECT_TRUE(v) << e;
  return v ? v->value : -999;
}

TEST(Expr, LiteralsHaveTheTypesOfCpp) {
  EXPECT_EQ(Expr(3).dtype(), i64);
  EXPECT_EQ(Expr(3u).dtype(), i64);
  EXPECT_EQ(Expr(1.5f).dtype(), f32);
  EXPECT_EQ(Expr(1.5).dtype(), f64);
  EXPECT_EQ(Expr(true).dtype(), boolean);
  EXPECT_FALSE(Expr().defined());
}

TEST(Expr, ALiteralTakesTheTypeOfTheOtherOperand) {
  const Var x("x", f32), n("n", i8), h("h", f16);
  EXPECT_EQ((x + 2).dtype(), f32);
  EXPECT_EQ((2.0 * x).dtype(), f32);
  EXPECT_EQ((n + 100).dtype(), i8);
  EXPECT_EQ(max(h, 0.f).dtype(), f16);
  EXPECT_EQ((x < 1).dtype(), boolean);
  EXPECT_EQ(make_select(x < 0, 0, x).dtype(), f32);
  EXPECT_EQ(make_binary(BinaryOp::Add, make_int(i32, 3), 4).dtype(), i32);
  EXPECT_EQ(make_binary(BinaryOp::Add, 4, make_int(i32, 3)).dtype(), i32);
}

TEST(Expr, MismatchesNameBothTypesAndTheCast) {
  const Var x("x", f32), n("n", i32), c("c", boolean), h("h", f16), b("b", u8);
  EXPECT_THAT(error_of([&] { x + n; }), HasSubstr("'+' have different types: f32 and i32"));
  EXPECT_THAT(error_of([&] { x + n; }), HasSubstr("use cast(...)"));
  EXPECT_THAT(error_of([&] { n + 1.5f; }), HasSubstr("i32 and f32"));
  EXPECT_THAT(error_of([&] { b + 300; }), HasSubstr("u8 and i64"));
  EXPECT_THAT(error_of([&] { b + -1; }), HasSubstr("u8 and i64"));
  EXPECT_THAT(error_of([&] { h + 1e6; }), HasSubstr("f16 and f64"));
  EXPECT_THAT(error_of([&] { c + c; }), HasSubstr("'+' needs numbers, not bool"));
  EXPECT_THAT(error_of([&] { x.expr() && c.expr(); }), HasSubstr("f32 and bool"));
  EXPECT_THAT(error_of([&] { floordiv(x, 2); }), HasSubstr("'floordiv' needs integers, not f32"));
  EXPECT_THAT(error_of([&] { make_unary(UnaryOp::Exp, n); }), HasSubstr("'exp' needs a float"));
  EXPECT_THAT(error_of([&] { make_select(n, x, x); }), HasSubstr("not bool"));
}

TEST(Expr, IntegerConstantsFoldInTheirType) {
  EXPECT_EQ(int_of(Expr(7) / -2), -3);
  EXPECT_EQ(int_of(floordiv(-7, 2)), -4);
  EXPECT_EQ(int_of(floormod(-7, 2)), 1);
  EXPECT_EQ(int_of(Expr(-7) % 2), -1);
  EXPECT_EQ(int_of(make_int(i8, 100) + make_int(i8, 100)), -56);
  EXPECT_EQ(int_of(make_int(u8, 3) - make_int(u8, 5)), 254);
  EXPECT_EQ(int_of(make_int(u64, -1) < make_int(u64, 1)), 0);
  EXPECT_EQ(int_of(make_binary(BinaryOp::Shr, make_int(i8, -8), make_int(i8, 1))), -4);
  EXPECT_EQ(int_of(floordiv(std::numeric_limits<int64_t>::min(), -1)),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(make_binary(BinaryOp::Div, Expr(1), Expr(0)).kind(), ExprKind::Binary)
      << "a division by zero that a pass finds stays";
  EXPECT_THROW(Expr(1) / 0, Error) << "one that is written is a mistake";
  EXPECT_EQ(int_of(cast(u8, Expr(258))), 2);
  EXPECT_EQ(int_of(cast(i32, Expr(-2.75))), -2);
  EXPECT_EQ(cast(i8, Expr(300.0)).kind(), ExprKind::Cast) << "out of range: not folded";
}

TEST(Expr, FloatConstantsFoldOnlyWhereExact) {
  EXPECT_EQ(float_of(Expr(0.1f) + 0.2f), static_cast<double>(0.1f + 0.2f));
  EXPECT_EQ(float_of(Expr(1.0) / 3.0), 1.0 / 3.0);
  EXPECT_EQ(float_of(make_float(f16, 2048) + make_float(f16, 1)), 2048);
  const Var x("x", f32);
  EXPECT_EQ((x + 0.f).kind(), ExprKind::Binary) << "-0 + 0 is 0";
  EXPECT_EQ((x * 0.f).kind(), ExprKind::Binary);
  EXPECT_TRUE((x - 0.f).same_as(x));
  EXPECT_TRUE((x * 1).same_as(x));
  EXPECT_EQ((x - x).kind(), ExprKind::Binary);
  EXPECT_EQ((x == x).kind(), ExprKind::Binary) << "NaN";
  EXPECT_EQ(make_unary(UnaryOp::Exp, 1.f).kind(), ExprKind::Unary);
  EXPECT_EQ(float_of(make_unary(UnaryOp::Round, 2.5)), 2);
  EXPECT_EQ(float_of(make_unary(UnaryOp::RoundTf32, 1 + 0x1.8p-11f)), 1 + 0x1p-10);
  EXPECT_EQ(float_of(make_unary(UnaryOp::RoundTf32, -1 - 0x1p-11f)), -1 - 0x1p-10) << "a tie";
  EXPECT_EQ(float_of(make_unary(UnaryOp::RoundTf32, 1 + 0x1.fp-12f)), 1);
  const Expr once = make_unary(UnaryOp::RoundTf32, x);
  EXPECT_TRUE(make_unary(UnaryOp::RoundTf32, once).same_as(once));
  const Var half("h", bf16);
  EXPECT_TRUE(make_unary(UnaryOp::RoundTf32, half).same_as(half)) << "tf32 holds it";
  EXPECT_EQ(to_string(once), "round_tf32(x)");
  const float nan = std::nanf("");
  EXPECT_EQ(min(Expr(nan), 1.f).kind(), ExprKind::Binary);
}

TEST(Expr, IntegerIdentities) {
  const Var x("x"), flag("c", boolean);
  const Expr c = flag;
  EXPECT_TRUE((x + 0).same_as(x));
  EXPECT_TRUE((0 + x).same_as(x));
  EXPECT_TRUE((x - 0).same_as(x));
  EXPECT_TRUE((1 * x).same_as(x));
  EXPECT_EQ(int_of(x * 0), 0);
  EXPECT_EQ(int_of(x - x), 0);
  EXPECT_TRUE(floordiv(x, 1).same_as(x));
  EXPECT_EQ(int_of(floormod(x, 1)), 0);
  EXPECT_TRUE(min(x, x).same_as(x));
  EXPECT_TRUE((c && Expr(true)).same_as(c));
  EXPECT_EQ(int_of(c && Expr(false)), 0);
  EXPECT_EQ(int_of(Expr(true) || c), 1);
  EXPECT_TRUE((!!c).same_as(c));
  EXPECT_TRUE(make_select(true, x, 3).same_as(x));
  EXPECT_EQ(int_of(x == x), 1);
  EXPECT_EQ(int_of(x < x), 0);
}

TEST(Expr, AScalarOperandIsBroadcast) {
  const Var i("i"), c("c", boolean);
  const Expr lanes = make_ramp(i, 1, 8);
  EXPECT_EQ((lanes + 1).dtype(), i64.with_lanes(8));
  EXPECT_EQ((lanes < i).dtype(), boolean.with_lanes(8));
  EXPECT_EQ(make_select(lanes < 3, 1, 0).dtype(), i64.with_lanes(8));
  EXPECT_EQ(make_select(c, lanes, 0)->dtype, i64.with_lanes(8)) << "a scalar condition stays";
  EXPECT_EQ(make_select(c, lanes, 0).as<Select>()->condition.dtype(), boolean);
  EXPECT_EQ(make_ramp(i, 0, 4).kind(), ExprKind::Broadcast);
  EXPECT_TRUE(make_ramp(i, 1, 1).same_as(i));
  const Buffer A = Buffer::make("A", f32, {4, 64}, Scope::Argument);
  EXPECT_EQ(make_load(A, {i, lanes}).dtype(), f32.with_lanes(8));
  EXPECT_EQ(cast(f32, lanes).dtype(), f32.with_lanes(8));
}

TEST(Expr, EqualityAndHashAreStructuralAndVariablesIdentities) {
  const Var x("x"), y("x");
  EXPECT_TRUE(equal(x * 2 + 1, x * 2 + 1));
  EXPECT_EQ((x * 2 + 1)->hash, (x * 2 + 1)->hash);
  EXPECT_FALSE(equal(x * 2, y * 2));
  EXPECT_FALSE(equal(Expr(0.0), Expr(-0.0)));
  EXPECT_FALSE(equal(Expr(1), Expr(true)));
  EXPECT_LT(x->id, y->id);
  EXPECT_TRUE(x.same_as(x));
  EXPECT_EQ((x == y).kind(), ExprKind::Binary);
}

TEST(Expr, SubstituteRebuildsOnlyWhatChanges) {
  const Var x("x"), y("y"), z("z");
  const Expr e = (x + 1) * (y + 2);
  EXPECT_TRUE(substitute(e, {{z, 3}}).same_as(e));
  const Expr s = substitute(e, {{x, 3}});
  EXPECT_TRUE(equal(s, Expr(4) * (y + 2))) << s;
  EXPECT_TRUE(s.as<Binary>()->b.same_as(e.as<Binary>()->b));
  EXPECT_EQ(int_of(substitute(e, {{x, 3}, {y, 4}})), 24);
  EXPECT_TRUE(uses_var(e, y));
  EXPECT_FALSE(uses_var(e, z));
}

TEST(Expr, SubstituteInADagIsNotExponential) {
  const Var x("x");
  Expr e = x;
  for (int i = 0; i < 60; ++i) e = e * e + 1;
  const Expr s = substitute(e, {{x, Var("y")}});
  EXPECT_FALSE(s.same_as(e));
}

TEST(Expr, ReduceTakesItsTypeFromTheCombiner) {
  auto sum = make_ref<Combiner>();
  sum->name = "sum";
  sum->lhs = {Var("a", f32)};
  sum->rhs = {Var("b", f32)};
  sum->result = {sum->lhs[0] + sum->rhs[0]};
  sum->identity = {0.f};
  const Axis k("k", 8, AxisKind::Reduce);
  const Buffer A = Buffer::make("A", f32, {8}, Scope::Argument);
  const Expr r = make_reduce(sum, {make_load(A, {k})}, {k});
  EXPECT_EQ(r.dtype(), f32);
  EXPECT_EQ(to_string(r), "sum(A[k], k)");
  EXPECT_THAT(error_of([&] { make_reduce(sum, {cast(i32, k)}, {k}); }), HasSubstr("i32, not f32"));
}

TEST(Expr, LoadChecksRankAndIndexTypes) {
  const Buffer A = Buffer::make("A", f32, {4, 64}, Scope::Argument);
  const Var x("x", f32), i("i", i32);
  EXPECT_THAT(error_of([&] { make_load(A, {1, 2, 3}); }),
              HasSubstr("2 dimensions but is read at 3"));
  EXPECT_THAT(error_of([&] { make_load(A, {x, 0}); }), HasSubstr("type f32"));
  EXPECT_EQ(make_load(A, {i, 0}).as<Load>()->indices[0].dtype(), i64);
  EXPECT_EQ(A.num_elements(), 256);
}

struct Owner : RefCounted {
  explicit Owner(bool* gone) : gone(gone) {}
  ~Owner() override { *gone = true; }
  void own() { buffers.emplace_back(new BufferNode("T", f32, {4}, Scope::Global, this)); }
  std::vector<Buffer> buffers;
  bool* gone;
};

TEST(Buffer, AHandleOfAnOwnedBufferKeepsItsOwner) {
  bool gone = false;
  Buffer kept;
  {
    Ref<Owner> owner = make_ref<Owner>(&gone);
    owner->own();
    owner->own();  // the vector grows: handles move
    kept = owner->buffers[0];
    EXPECT_EQ(kept->producer(), owner.get());
  }
  EXPECT_FALSE(gone);
  Expr load = make_load(kept, {0});
  kept = Buffer();
  EXPECT_FALSE(gone);
  load = Expr();
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace heddle
