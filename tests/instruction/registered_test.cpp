// Instructions that a program registers: loops become calls of them, run as loops where the machine
// does not have them, and are refused where they compute something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/codegen/interpreter.h"
#include "heddle/codegen/llvm.h"
#include "heddle/heddle.h"
#include "heddle/instruction/instruction.h"
#include "heddle/lower/lower.h"
#include "heddle/support/error.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// d[l] = d[l] + |a[l, j] - b[l, j]|, psadbw of 128 bits.
MachineInstruction sad() {
  MachineInstruction x;
  x.name = "sad";
  x.loops = {"l", "j"};
  x.operands = {{"d", {0}}, {"a", {0, 1}}, {"b", {0, 1}}};
  x.value = [](const std::vector<Expr>& v) {
    return v[0] + abs(cast(i64, v[1]) - cast(i64, v[2]));
  };
  x.forms = {{{i64, u8, u8}, {{2}, {8}}, {"llvm.x86.sse2.psad.bw", {1, 2}, true}}};
  x.legal = [](const Target& t, const InstructionForm&) { return t.is_x86(); };
  return x;
}

// d[l] = (a[l] + b[l] + 1) >> 1, pavgw: its result replaces what d was.
MachineInstruction average() {
  MachineInstruction x;
  x.name = "average";
  x.loops = {"l"};
  x.operands = {{"d", {0}}, {"a", {0}}, {"b", {0}}};
  x.value = [](const std::vector<Expr>& v) {
    return cast(
        u16, (cast(i32, v[1]) + cast(i32, v[2]) + Expr(make_int(i32, 1))) / Expr(make_int(i32, 2)));
  };
  x.forms = {{{u16, u16, u16}, {{8}}, {"llvm.x86.sse2.pavg.w", {1, 2}, false}}};
  x.legal = [](const Target& t, const InstructionForm&) { return t.is_x86(); };
  return x;
}

class Registered : public ::testing::Test {
 protected:
  explicit Registered(MachineInstruction x = sad()) : name_(x.name) {
    register_instruction(std::move(x));
  }
  ~Registered() override { unregister_instruction(name_); }

 private:
  std::string name_;
};

// parts[i, l] = sum(r, j, |a[i, r, l, j] - b[r, l, j]|) of 5 x 3 x 2 x 8 bytes.
struct Sums {
  Tensor a = placeholder({5, 3, 2, 8}, u8, "a"), b = placeholder({3, 2, 8}, u8, "b");
  Axis r = reduce_axis(3, "r"), j = reduce_axis(8, "j");
  Tensor parts = compute(
      {5, 2},
      [this](Axis i, Axis l) {
        return sum(abs(cast(i64, a(i, r, l, j)) - cast(i64, b(r, l, j))), {r, j});
      },
      "parts");
  std::vector<Tensor> args() const { return {a, b, parts}; }

  // The order of the loops decides which of them are marked.
  Schedule schedule(const Target& target, bool bytes_inside = true,
                    const std::string& name = "sad") const {
    Schedule s({parts}, target);
    StageRef p = s[parts];
    auto [i, l] = p.axes<2>();
    const Loop row = p.reduce_axis(0), byte = p.reduce_axis(1);
    p.reorder(bytes_inside ? std::vector<Loop>{i, row, l, byte}
                           : std::vector<Loop>{i, byte, l, row});
    p.tensorize(l, name);
    return s;
  }
};

std::string llvm_of(const Schedule& s, const std::vector<Tensor>& args) {
  return emit_llvm({lower(s, args).main}, s.target(), "ll");
}

TEST_F(Registered, LoopsBecomeTheInstruction) {
  const Sums p;
  const NDArray a = NDArray::random({5, 3, 2, 8}, u8, 1), b = NDArray::random({3, 2, 8}, u8, 2);
  const NDArray want = interpret({p.parts}, {{p.a, a}, {p.b, b}})[0];
  const std::vector<NDArray> arrays{a, b, NDArray::full({5, 2}, i64, -1)};
  build(p.schedule(Target::host()), p.args()).call(arrays);
  EXPECT_TRUE(compare(arrays[2], want, 0, 0).ok());
  EXPECT_THAT(llvm_of(p.schedule(Target::parse("llvm -mcpu=x86-64-v2")), p.args()),
              HasSubstr("call <2 x i64> @llvm.x86.sse2.psad.bw"));
  // The nest by the interpreter, after all passes.
  const std::vector<NDArray> lowered{a, b, NDArray::full({5, 2}, i64, -1)};
  interpret(lower(p.schedule(Target::host()), p.args()).main, lowered);
  EXPECT_TRUE(compare(lowered[2], want, 0, 0).ok());
}

TEST_F(Registered, StepsWithoutANameFindIt) {
  const Sums p;
  std::vector<std::string> names;
  visit(
      lower(p.schedule(Target::host(), true, ""), p.args()).main.body,
      [&](const Stmt& s) {
        const For* f = s.as<For>();
        if (f && is_tensorized(f->loop)) names.push_back(f->loop.instruction.text());
      },
      [](const Expr&) {});
  EXPECT_THAT(names, ElementsAre("sad"));  // what adds to the sums, and not what sets them
}

TEST_F(Registered, RunsAsLoopsWhereTheMachineLacksIt) {
  const Sums p;
  const Target arm = Target::parse("llvm -mcpu=apple-m1"),
               x86 = Target::parse("llvm -mcpu=x86-64-v2");
  EXPECT_THAT(llvm_of(p.schedule(arm), p.args()), Not(HasSubstr("psad")));
  for (const Target& t : {arm, x86}) {
    const auto expected = expected_instructions({lower(p.schedule(t), p.args()).main}, t);
    ASSERT_EQ(expected.size(), 1u);
    EXPECT_EQ(expected[0].buffer, "parts");
    EXPECT_EQ(expected[0].instruction, "sad");
    EXPECT_EQ(expected[0].missed(), t == arm);
  }
}

std::string complaint_about(const Schedule& s, const std::vector<Tensor>& args) {
  try {
    (void)llvm_of(s, args);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    return e.what();
  }
  return "";
}

TEST_F(Registered, OtherLoopsAreRefusedWithTheReason) {
  const Target target = Target::parse("llvm -mcpu=x86-64-v2");
  const Sums p;
  EXPECT_THAT(complaint_about(p.schedule(target, false), p.args()),
              HasSubstr("as sad: loop 'r', which is its 'j', has 3 iterations, and not 8"));
  // The same sums of halves that do not lie side by side.
  const Tensor x = placeholder({3, 8, 2}, u8, "x"), y = placeholder({3, 8, 2}, u8, "y");
  const Axis r = reduce_axis(3, "r"), j = reduce_axis(8, "j");
  const Tensor d = compute(
      {2}, [&](Axis l) { return sum(abs(cast(i64, x(r, j, l)) - cast(i64, y(r, j, l))), {r, j}); },
      "d");
  Schedule s({d}, target);
  s[d].reorder({s[d].reduce_axis(0), s[d].axis(0), s[d].reduce_axis(1)});
  s[d].tensorize(s[d].axis(0), "sad");
  EXPECT_THAT(complaint_about(s, {x, y, d}), HasSubstr("as sad: 'x' is read at "));
}

TEST(RegisteredInstructions, MistakesAreSaid) {
  const auto complaint = [](const std::function<void(MachineInstruction&)>& change) {
    MachineInstruction x = sad();
    change(x);
    try {
      register_instruction(std::move(x));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      return std::string(e.what());
    }
    unregister_instruction("sad");
    return std::string();
  };
  EXPECT_EQ(complaint([](MachineInstruction&) {}), "");
  EXPECT_THAT(complaint([](MachineInstruction& x) { x.name = "mma"; }),
              HasSubstr("is one that Heddle has"));
  EXPECT_THAT(complaint([](MachineInstruction& x) { x.value = nullptr; }),
              HasSubstr("lacks forms"));
  EXPECT_THAT(complaint([](MachineInstruction& x) { x.operands[1].loops = {2}; }),
              HasSubstr("operand 'a' with a loop that there is not"));
  EXPECT_THAT(complaint([](MachineInstruction& x) { x.forms[0].types.pop_back(); }),
              HasSubstr("other numbers of types"));
  EXPECT_THAT(complaint([](MachineInstruction& x) { x.forms[0].extents[0] = {2, 4}; }),
              HasSubstr("not one extent"));
  EXPECT_THAT(complaint([](MachineInstruction& x) { x.forms[0].llvm.operands = {3}; }),
              HasSubstr("with an operand that there is not"));
  // A function that LLVM does not have, and one of other vectors, are found where they are called.
  const Sums p;
  for (const auto& [function, message] :
       {std::pair{"llvm.x86.no.such", "which LLVM does not have"},
        std::pair{"llvm.x86.avx2.psad.bw", "whose vectors have another size"},
        std::pair{"llvm.x86.sse41.phminposuw", "another number of parameters"}}) {
    MachineInstruction x = sad();
    x.forms[0].llvm.intrinsic = function;
    register_instruction(std::move(x));
    const Schedule s = p.schedule(Target::parse("llvm -mcpu=x86-64-v2"));
    EXPECT_THAT(complaint_about(s, p.args()), HasSubstr(message));
    unregister_instruction("sad");
  }
}

TEST(RegisteredInstructions, ResultsMayReplaceTheOperand) {
  register_instruction(average());
  const Tensor x = placeholder({3, 8}, u16, "x"), y = placeholder({3, 8}, u16, "y");
  const Tensor d = compute(
      {3, 8},
      [&](Axis i, Axis l) { return cast(u16, (cast(i32, x(i, l)) + cast(i32, y(i, l)) + 1) / 2); },
      "d");
  const auto schedule = [&](const Target& target) {
    Schedule s({d}, target);
    s[d].tensorize(s[d].axis(1), "average");
    return s;
  };
  const NDArray a = NDArray::random({3, 8}, u16, 1), b = NDArray::random({3, 8}, u16, 2);
  const std::vector<NDArray> arrays{a, b, NDArray::zeros({3, 8}, u16)};
  build(schedule(Target::host()), {x, y, d}).call(arrays);
  EXPECT_TRUE(compare(arrays[2], interpret({d}, {{x, a}, {y, b}})[0], 0, 0).ok());
  EXPECT_THAT(llvm_of(schedule(Target::parse("llvm -mcpu=x86-64-v2")), {x, y, d}),
              HasSubstr("@llvm.x86.sse2.pavg.w"));
  unregister_instruction("average");
}

}  // namespace
}  // namespace heddle::testing
