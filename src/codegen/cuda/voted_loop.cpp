#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/votes.h"

namespace heddle::cuda {
namespace {

// Iterations that a lane tests at a time, whose loads are under way together.
constexpr int kTestedByLane = 4;
// The same where each lane tests all iterations for itself: the bits of a word.
constexpr int kTestedAhead = 32;

}  // namespace

// The condition on which the lanes of a warp vote (votes.h); null for other loops.
Expr KernelWriter::vote_on(const For& f) const {
  const Interval range = range_of(f.extent, ranges_);
  const bool fits =
      range.max != Interval::kPosInf && fits_32_bits({range.min, range.max + 32 * kTestedByLane});
  if (!fits || facts_.register_loops.contains(&f)) return {};
  const Expr vote = vote_of(f, warp_);
  return vote.defined() ? simplify(vote, ranges_) : vote;
}

// The lanes of a warp test some iterations each, and then all run those, in order, that one of them found:
//
//   for (first = 0; first < n; first += 4 * 32) {
//     for k { found |= (first + k * 32 + lane < n && vote(first + k * 32 + lane)) << k; }
//     if (no lane found any) continue;
//     for k { for (votes = ballot(found >> k & 1); votes != 0; votes &= votes - 1) {
//       q = first + k * 32 + lowest(votes); body
//     } }
//   }
//
// Lanes that are not here take no part: each iteration of those that are here is tested by one of them.
void KernelWriter::voted_loop(const For& f, const Expr& vote) {
  const std::string tested = std::to_string(kTestedByLane);
  Vote v{names_.unique("lanes"), names_.unique("step"), names_.unique("first"),
         names_.unique("found")};
  const std::string lane = names_.unique("lane");
  begin({f.extent});
  Text limit = value(f.extent);
  if (!is_identifier(limit.s) && !as_int(f.extent)) limit = named(f.extent, limit, "n");
  flush();
  ranges_.set(f.var, {0, range_of(f.extent, ranges_).max - 1});
  warp_.same.insert(f.var.get());
  line("const unsigned " + v.lanes + " = " + warp_mask_ + ";");
  line("const int " + v.step + " = __popc(" + v.lanes + "), " + lane + " = " +
       prelude_.use("lanes_below") + "(" + v.lanes + ");");
  line("#pragma unroll 1");
  open("for (int " + v.first + " = 0; " + v.first + " < " + limit.at(kShift) + "; " + v.first +
       " += " + tested + " * " + v.step + ") {");
  line("unsigned " + v.found + " = 0;");
  line("#pragma unroll");
  const std::string k = names_.unique("k"), tried = names_.unique(f.var->name);
  open("for (int " + k + " = 0; " + k + " < " + tested + "; ++" + k + ") {");
  line("const int " + tried + " = " + v.first + " + " + k + " * " + v.step + " + " + lane + ";");
  open("if (" + tried + " < " + limit.at(kShift) + ") {");
  vars_[f.var.get()] = {{tried, kAtom}};
  begin({vote});
  const Text is_found = value(vote);
  flush();
  line(v.found + " |= (unsigned)(" + is_found.s + ") << " + k + ";");
  close(2);
  run_found(f, v, equal(f.body.as<If>()->condition, vote) ? f.body.as<If>()->then_body : f.body);
  close(1);
  ranges_.erase(f.var);
}

bool KernelWriter::is_tested_ahead(const For& f) const {
  const Interval range = range_of(f.extent, ranges_);
  return range.max != Interval::kPosInf && fits_32_bits({range.min, range.max + kTestedAhead}) &&
         !facts_.register_loops.contains(&f) && tests_ahead(f, warp_);
}

// Each lane tests some iterations, whose loads are under way together, and then runs those that it found:
//
//   for (first = 0; first < n; first += 32) {
//     for k { found |= (first + k < n && condition(first + k)) << k; }
//     for (; found != 0; found &= found - 1) { q = first + lowest(found); body }
//   }
void KernelWriter::tested_loop(const For& f) {
  const std::string tested = std::to_string(kTestedAhead), first = names_.unique("first"),
                    found = names_.unique("found"), k = names_.unique("k"),
                    tried = names_.unique(f.var->name), name = names_.unique(f.var->name);
  begin({f.extent});
  Text limit = value(f.extent);
  if (!is_identifier(limit.s) && !as_int(f.extent)) limit = named(f.extent, limit, "n");
  flush();
  ranges_.set(f.var, {0, range_of(f.extent, ranges_).max - 1});
  line("#pragma unroll 1");
  open("for (int " + first + " = 0; " + first + " < " + limit.at(kShift) + "; " + first +
       " += " + tested + ") {");
  line("unsigned " + found + " = 0;");
  line("#pragma unroll");
  open("for (int " + k + " = 0; " + k + " < " + tested + "; ++" + k + ") {");
  line("const int " + tried + " = " + first + " + " + k + ";");
  const int64_t* extent = as_int(f.extent);
  const bool whole = extent && *extent % kTestedAhead == 0;
  if (!whole) open("if (" + tried + " < " + limit.at(kShift) + ") {");
  vars_[f.var.get()] = {{tried, kAtom}};
  const If& tests = *f.body.as<If>();
  begin({tests.condition});
  const Text is_found = value(tests.condition);
  flush();
  line(found + " |= (unsigned)(" + is_found.s + ") << " + k + ";");
  close(whole ? 1 : 2);
  line("#pragma unroll 1");
  open("for (; " + found + " != 0; " + found + " &= " + found + " - 1) {");
  line("const int " + name + " = " + first + " + __ffs(" + found + ") - 1;");
  vars_[f.var.get()] = {{name, kAtom}};
  statement(tests.then_body);
  close(2);
  ranges_.erase(f.var);
}

// The iterations of a round that some lane has found.
void KernelWriter::run_found(const For& f, const Vote& v, const Stmt& body) {
  const std::string k = names_.unique("k"), votes = names_.unique("votes"),
                    name = names_.unique(f.var->name);
  line("if (!__any_sync(" + v.lanes + ", " + v.found + " != 0)) continue;");
  line("#pragma unroll 1");
  open("for (int " + k + " = 0; " + k + " < " + std::to_string(kTestedByLane) + "; ++" + k + ") {");
  open("for (unsigned " + votes + " = __ballot_sync(" + v.lanes + ", " + v.found + " >> " + k +
       " & 1); " + votes + " != 0; " + votes + " &= " + votes + " - 1) {");
  line("const int " + name + " = " + v.first + " + " + k + " * " + v.step + " + __popc(" + v.lanes +
       " & ((" + votes + " & -" + votes + ") - 1));");
  vars_[f.var.get()] = {{name, kAtom}};
  statement(body);
  close(2);
}

// A C++ scope, of which `head` is the line that opens it.
void KernelWriter::open(const std::string& head) {
  line(head);
  ++indent_;
  scopes_.emplace_back();
}

void KernelWriter::close(int scopes) {
  for (; scopes > 0; --scopes) {
    scopes_.pop_back();
    --indent_;
    line("}");
  }
}

}  // namespace heddle::cuda
