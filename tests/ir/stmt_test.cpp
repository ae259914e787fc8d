#include "heddle/ir/stmt.h"

#include <gtest/gtest.h>

#include "heddle/ir/print.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

struct StmtTest : testing::Test {
  Var i{"i"}, j{"j"}, n{"n"};
  Buffer A = Buffer::make("A", f32, {8, 8}, Scope::Argument);
  Stmt store = make_store(A, {i, j}, make_load(A, {i, j}) + 1);
};

TEST_F(StmtTest, ConstructorsDropWhatDoesNothing) {
  EXPECT_FALSE(make_for(i, 8, LoopKind::Serial, Stmt()));
  EXPECT_FALSE(make_for(i, 0, LoopKind::Serial, store));
  EXPECT_TRUE(make_if(true, store).same_as(store));
  EXPECT_FALSE(make_if(false, store));
  EXPECT_FALSE(make_if(i < 3, Stmt()));
  EXPECT_FALSE(make_block({Stmt(), Stmt()}));
  EXPECT_TRUE(make_block({Stmt(), store}).same_as(store));
  const Stmt nested = make_block({make_block({store, store}), Stmt(), store});
  ASSERT_TRUE(nested.as<Block>());
  EXPECT_EQ(nested.as<Block>()->stmts.size(), 3u);
}

TEST_F(StmtTest, StoreAdaptsConstantsAndBroadcasts) {
  const Stmt s = make_store(A, {i, make_ramp(0, 1, 8)}, 0);
  EXPECT_EQ(to_string(s), "A[i, ramp(0, 1, 8)] = x8(0.0f)\n");
  EXPECT_THROW(make_store(A, {i, j}, cast(f64, make_load(A, {i, j}))), Error);
  EXPECT_THROW(make_store(A, {i, j, j}, 0.f), Error);
}

TEST_F(StmtTest, SubstituteKeepsWhatIsUnchanged) {
  const Stmt loop = make_for(j, n, LoopKind::Serial, store);
  EXPECT_TRUE(substitute(loop, {{Var("z"), 1}}).same_as(loop));
  EXPECT_EQ(to_string(substitute(loop, {{i, j * 2}, {n, 4}})),
            "for j in 0..4 {\n"
            "  A[j*2, j] = A[j*2, j] + 1.0f\n"
            "}\n");
}

TEST_F(StmtTest, EqualIsStructural) {
  const auto make = [&](const Expr& extent) {
    return make_if(i < n, make_for(j, extent, LoopKind::Parallel, store), store);
  };
  EXPECT_TRUE(equal(make(n), make(n)));
  EXPECT_FALSE(equal(make(n), make(4)));
  EXPECT_FALSE(equal(make(n), store));
}

TEST_F(StmtTest, VisitSeesParentsFirst) {
  const Stmt loop = make_for(j, n, LoopKind::Serial, store);
  int stmts = 0, loads = 0;
  bool loop_first = false;
  visit(
      loop,
      [&](const Stmt& s) {
        if (stmts++ == 0) loop_first = s.kind() == StmtKind::For;
      },
      [&](const Expr& e) { loads += e.kind() == ExprKind::Load; });
  EXPECT_TRUE(loop_first);
  EXPECT_EQ(stmts, 2);
  EXPECT_EQ(loads, 1);
}

// Records have these numbers.
TEST(LoopKinds, HaveNumbers) {
  const std::vector<std::pair<int64_t, LoopKind>> known{{0, LoopKind::Serial},
                                                        {4, LoopKind::BlockX},
                                                        {9, LoopKind::ThreadZ},
                                                        {10, LoopKind::tensorized()},
                                                        {11, LoopKind::clusters(2)},
                                                        {13, LoopKind::clusters(8)},
                                                        {14, LoopKind::LastBlock},
                                                        {15, LoopKind::SoftwarePipelined},
                                                        {16, LoopKind::persistent()},
                                                        {17, LoopKind::PairX},
                                                        {18, LoopKind::persistent(true)},
                                                        {19, LoopKind::persistent(false, true)},
                                                        {20, LoopKind::persistent(true, true)}};
  for (const auto& [number, kind] : known) {
    EXPECT_EQ(kind.number(), number);
    EXPECT_EQ(LoopKind::of_number(number), kind);
  }
  EXPECT_EQ(LoopKind::of_number(21), std::nullopt);
  EXPECT_EQ(LoopKind::of_number(-1), std::nullopt);
  EXPECT_EQ(LoopKind::tensorized(InstructionName("mma")).number(), 10);
  EXPECT_NE(LoopKind::tensorized(InstructionName("mma")), LoopKind::tensorized());
  EXPECT_EQ(InstructionName(std::string("mma")), InstructionName("mma"));
}

}  // namespace
}  // namespace heddle
