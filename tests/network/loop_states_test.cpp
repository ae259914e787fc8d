// Networks with loops that update inputs, too, against the interpreter on what is unrolled.
#include <sstream>

#include "network/loops_testing.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// A loop that reads states and what they become, once as a loop and once unrolled.
class DrawnStates {
 public:
  explicit DrawnStates(Rng& rng) {
    const int64_t from = rng.uniform_int(0, 2);
    turns_ = from == 2 ? kRows : rng.uniform_int(1, 5);
    wide_ = std::vector<int64_t>{3, 4, 8}[static_cast<size_t>(rng.uniform_int(0, 2))];
    of_cache_ = from == 2;
    relu_ = from == 1;
    for (bool* b : {&turn_reads_old_, &turn_reads_new_, &turn_reads_weight_, &reads_old_,
                    &reads_new_, &updates_weight_, &updates_start_})
      *b = rng.chance(0.4);
    at_ = rng.uniform_int(0, kRows - 2);
    x = placeholder({turns_, wide_}, f32, "x");
    start = placeholder({wide_}, f32, "start");
    weight = placeholder({wide_}, f32, "weight");
    cache = placeholder({kRows, wide_}, f32, "cache");
    rows = placeholder({2, wide_}, f32, "rows");
    declare(true);
    declare(false);
  }

  std::string text() const {
    std::ostringstream out;
    out << turns_ << " turns of " << wide_
        << (of_cache_ ? " of_cache"
            : relu_   ? " relu"
                      : "")
        << (turn_reads_old_ ? " turn_reads_old" : "") << (turn_reads_new_ ? " turn_reads_new" : "")
        << (turn_reads_weight_ ? " turn_reads_weight" : "") << (reads_old_ ? " reads_old" : "")
        << (reads_new_ ? " reads_new" : "") << (updates_weight_ ? " updates_weight" : "")
        << (updates_start_ ? " updates_start" : "") << " at " << at_;
    return out.str();
  }

  /// "" where three calls leave in outputs and states what the interpreter computes.
  std::string wrong(const char* passes) const {
    const Network network(looped, Target::host(), {}, parse_passes(passes), updates);
    if (network.loops().size() != 1) return "no loop";
    std::vector<Tensor> inputs = ComputeDag(all_unrolled()).placeholders(), args = inputs;
    args.insert(args.end(), looped.begin(), looped.end());
    const NetworkKernel kernel = network.build(args);
    std::vector<NDArray> arrays;
    for (const Tensor& t : args)
      arrays.push_back(NDArray::random(t.extents(), t.dtype(), arrays.size() + 1));
    for (int call = 0; call < 3; ++call) {
      std::vector<TensorValue> before;
      for (size_t i = 0; i < inputs.size(); ++i) before.push_back({inputs[i], arrays[i].copy()});
      const std::vector<NDArray> want = interpret(all_unrolled(), before);
      kernel.call(arrays);
      for (size_t o = 0; o < want.size(); ++o) {
        const NDArray& got = o < looped.size() ? arrays[inputs.size() + o]
                                               : arrays[place_of(inputs, o - looped.size())];
        const Difference d = compare(got, want[o], 1e-4, 1e-5);
        if (!d.ok())
          return "call " + std::to_string(call) + ", result " + std::to_string(o) + ": " +
                 describe(d, got);
      }
    }
    return "";
  }

  Tensor x, start, weight, cache, rows;
  std::vector<Tensor> looped, unrolled;
  Updates updates;
  std::vector<StateUpdate> plain;

 private:
  static constexpr int64_t kRows = 8;

  std::vector<Tensor> all_unrolled() const {
    std::vector<Tensor> all = unrolled;
    for (const StateUpdate& u : plain) all.push_back(u.next);
    return all;
  }
  size_t place_of(const std::vector<Tensor>& inputs, size_t update) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].same_as(plain[update].state)) return i;
    }
    return inputs.size();
  }
  Tensor turn(const Tensor& before, const Tensor& row, const Tensor& next_cache) const {
    return compute(
        {wide_},
        [&](Axis i) {
          Expr sum = before(i) * 0.5F + row(i);
          if (turn_reads_old_) sum = sum + cache(2, i);
          if (turn_reads_new_) sum = sum + next_cache(3, i);
          if (turn_reads_weight_) sum = sum + weight(i);
          return tanh(sum);
        },
        "next");
  }
  void declare(bool loops) {
    const Tensor next_cache = update(cache, rows, Expr(at_));
    const Tensor whole = of_cache_ ? next_cache : relu_ ? ops::relu(x) : x;
    Recurrence loop("loop", Expr(turns_));
    Tensor all, last;
    if (loops) {
      const Tensor before = loop.state(start);
      loop.next(before, turn(before, loop.row(whole), next_cache));
      last = loop.last(before);
      all = loop.all(turn(before, loop.row(whole), next_cache));
    } else {
      std::vector<Tensor> made;
      Tensor before = start;
      for (int64_t t = 0; t < turns_; ++t) {
        const Tensor row = compute({wide_}, [&](Axis i) { return whole(t, i); }, "row");
        before = turn(before, row, next_cache);
        made.push_back(before);
      }
      last = before;
      all = compute(
          {turns_, wide_},
          [&](Axis t, Axis i) {
            Expr value = made[0](i);
            for (size_t n = 1; n < made.size(); ++n)
              value = select(Expr(t) == static_cast<int64_t>(n), made[n](i), value);
            return value;
          },
          "all");
    }
    std::vector<Tensor>& outputs = loops ? looped : unrolled;
    outputs.push_back(compute({turns_, wide_}, [&](Axis t, Axis i) { return all(t, i) * 2; }, "y"));
    const auto twice = [&](const Tensor& t) {
      return compute({kRows, wide_}, [&](Axis r, Axis i) { return t(r, i) * 2; }, "twice");
    };
    if (reads_old_) outputs.push_back(twice(cache));
    if (reads_new_) outputs.push_back(twice(next_cache));
    std::vector<StateUpdate> list{{cache, next_cache}};
    if (updates_start_) list.push_back({start, ops::identity(last)});
    if (updates_weight_)
      list.push_back(
          {weight,
           compute({wide_}, [&](Axis i) { return weight(i) * 0.5F + last(i); }, "next_weight")});
    if (loops) {
      updates = Updates(list, {loop.repeat()});
    } else {
      plain = list;
    }
  }

  int64_t turns_ = 0, wide_ = 0, at_ = 0;
  bool of_cache_ = false, relu_ = false, turn_reads_old_ = false, turn_reads_new_ = false,
       turn_reads_weight_ = false, reads_old_ = false, reads_new_ = false, updates_weight_ = false,
       updates_start_ = false;
};

TEST(LoopStates, DrawnNetworksLeaveInInputsWhatUnrolledOnesDo) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    const DrawnStates drawn(rng);
    EXPECT_EQ(drawn.wrong(seed % 2 == 0 ? "" : "none"), "")
        << "seed " << seed << ": " << drawn.text();
  }
}

/// A layer whose last state is where the next call begins.
struct Stream {
  Tensor x = placeholder({30, 8}, f32, "x"), state = placeholder({8}, f32, "state"), y, next;
  Updates updates;
  Stream() {
    Recurrence loop("layer", Expr(30));
    const Tensor before = loop.state(state), row = loop.row(x);
    const Tensor made =
        compute({8}, [&](Axis i) { return tanh(before(i) * 0.9F + row(i)); }, "made");
    loop.next(before, made);
    y = ops::relu(loop.all(made));
    next = ops::identity(loop.last(before));
    updates = Updates({{state, next}}, {loop.repeat()});
  }
};

TEST(LoopStates, AStateGoesOnInTheNextCall) {
  const Stream s;
  const NetworkKernel kernel =
      Network({s.y}, Target::host(), {}, {}, s.updates).build({s.x, s.state, s.y});
  const NDArray x = NDArray::random({30, 8}, f32, 1), y = NDArray::zeros({30, 8}, f32),
                state = NDArray::zeros({8}, f32);
  std::vector<float> want(8);
  for (int call = 0; call < 3; ++call) {
    kernel(x, state, y);
    for (int64_t t = 0; t < 30; ++t) {
      for (size_t i = 0; i < 8; ++i)
        want[i] = std::tanh(want[i] * 0.9F + x.data<float>()[8 * t + static_cast<int64_t>(i)]);
    }
    for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(state.data<float>()[i], want[i], 1e-5) << call;
  }
}

TEST(LoopStates, OutputsAreNotOfSingleTurns) {
  Recurrence loop("l", Expr(5));
  const Tensor x = placeholder({5, 4}, f32, "x");
  const Tensor before = loop.state(ops::full({4}, 0, f32));
  const Tensor sum = ops::add(before, loop.row(x));
  loop.next(before, sum);
  const Tensor y = ops::relu(loop.all(sum)), z = ops::relu(sum);
  EXPECT_THAT(
      message_of([&] { Network({y, z}, Target::host(), {}, {}, Updates({}, {loop.repeat()})); }),
      HasSubstr("depends on what differs between its turns"));
}

}  // namespace
}  // namespace heddle::testing
