#include "selftest/random_schedule.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

namespace heddle::selftest {

namespace {

Config uniform_config(const Template& t, Rng& rng) {
  Config c;
  for (const Knob& k : t.knobs()) c.values.push_back(rng.choose(k.values));
  return c;
}

// A legal config whose kinds are drawn first, each as often as the others, however few configs of
// a kind are legal. Nothing where few draws find none.
std::optional<Config> config_of_kinds(const Template& t, Rng& rng) {
  constexpr int kMostDraws = 300;
  const Config kinds = uniform_config(t, rng);
  for (int attempt = 0; attempt < kMostDraws; ++attempt) {
    Config c = uniform_config(t, rng);
    for (size_t k = 0; k < c.values.size(); ++k) {
      if (t.knobs()[k].is_kind()) c.values[k] = kinds.values[k];
    }
    if (t.why_invalid(c).empty()) return c;
  }
  return {};
}

}  // namespace

Config random_config(const Template& t, Rng& rng) {
  const auto is_choice = [](const Knob& k) { return k.is_kind() && k.values.size() > 1; };
  if (std::any_of(t.knobs().begin(), t.knobs().end(), is_choice) && rng.uniform_int(0, 1) == 1) {
    if (std::optional<Config> c = config_of_kinds(t, rng)) return *std::move(c);
  }
  for (int attempt = 0; attempt < 30; ++attempt) {
    Config c = uniform_config(t, rng);
    if (t.why_invalid(c).empty()) return c;
  }
  // Where few configs are valid, the walk starts from a valid one and changes knob after knob, in
  // random order, as long as the config stays valid.
  Config c = t.default_config();
  std::vector<size_t> order(c.values.size());
  std::iota(order.begin(), order.end(), 0);
  rng.shuffle(order);
  for (const size_t k : order) {
    const int64_t before = c.values[k];
    c.values[k] = rng.choose(t.knobs()[k].values);
    if (!t.why_invalid(c).empty()) c.values[k] = before;
  }
  return c;
}

namespace {

using Loops = std::vector<std::vector<Loop>>;  // for each stage, all axes that were ever made

// Draws one step after the other. Numbers are drawn in a fixed order, so that a seed reproduces the
// schedule.
class ScheduleDrawer {
 public:
  ScheduleDrawer(Schedule from, Rng& rng) : s_(std::move(from)), rng_(rng) {
    for (int i = 0; i < s_.dag().size(); ++i) sync(s_.stage(i));
  }

  Schedule run() {
    const int steps = static_cast<int>(pick(1, 14));
    for (int n = 0; n < steps; ++n) {
      const Schedule before = s_;
      const Loops loops_before = loops_;
      const int id = any_stage();
      try {
        step(id);
        lower_all();
      } catch (const Error& e) {
        if (e.kind == ErrorKind::Internal) throw;
        s_ = before;
        loops_ = loops_before;
      }
    }
    return s_;
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  int any_stage() { return static_cast<int>(pick(0, static_cast<int64_t>(loops_.size()) - 1)); }
  Loop any_loop(int of) {
    return loops_[of].empty() ? Loop{}
                              : loops_[of][pick(0, static_cast<int64_t>(loops_[of].size()) - 1)];
  }
  // Updates the list of the axes of a stage.
  void sync(StageRef stage) {
    while (static_cast<int>(loops_.size()) <= stage.id()) loops_.emplace_back();
    auto& l = loops_[stage.id()];
    for (Loop x : stage.all_axes()) l.push_back(x);
    for (Loop x : stage.all_reduce_axes()) l.push_back(x);
  }

  void step(int id) {
    StageRef st = s_.stage(id);
    switch (pick(0, 15)) {
      case 0:
      case 1:
      case 2: keep(id, st.split(any_loop(id), Param(pick(1, 9)))); break;
      case 3: loops_[id].push_back(st.fuse(any_loop(id), any_loop(id))); break;
      case 4: st.reorder({any_loop(id), any_loop(id)}); break;
      case 5: st.vectorize(any_loop(id)); break;
      case 6: st.unroll(any_loop(id)); break;
      case 7:
        if (pick(0, 2) == 0) {
          st.software_pipeline(any_loop(id));
        } else {
          st.parallel(any_loop(id));
        }
        break;
      case 8: attach(st); break;
      case 9: st.compute_inline(); break;
      case 10: sync(st.cache_write()); break;
      case 11: factor(st); break;
      case 12: copy(st); break;
      case 13:
        keep(id, st.split(any_loop(id), Param(pick(1, 9)), TailStrategy::PredicateStores));
        break;
      case 14: pad(st); break;
      case 15:
        st.expect(pick(0, 1) == 0 ? Instruction::DotProduct : Instruction::TransposedSquare);
        break;
    }
  }

  void keep(int id, const std::array<Loop, 2>& parts) {
    for (const Loop& l : parts) loops_[id].push_back(l);
  }

  void attach(StageRef st) {
    const int at = any_stage();
    st.compute_at(s_.stage(at), any_loop(at));
    const int keeper = any_stage();
    if (pick(0, 2) == 0) st.store_at(s_.stage(keeper), any_loop(keeper));
  }

  void factor(StageRef st) {
    std::vector<Loop> ks{any_loop(st.id())};
    if (pick(0, 1) == 1) ks.push_back(any_loop(st.id()));
    sync(st.rfactor(ks, Param(pick(1, 9)), pick(0, 1) == 1));
  }

  void copy(StageRef st) {
    const StageRef reader = s_.stage(any_stage());
    const bool part = reader.num_axes() > 0 && pick(0, 3) == 0;
    StageRef copy = part ? st.cache_read(reader, reader.axis(pick(0, reader.num_axes() - 1)))
                         : st.cache_read({reader});
    sync(copy);
    if (copy.num_axes() > 1 && pick(0, 1)) {
      const int64_t f = pick(2, 5);
      std::vector<StageRef::StorageDim> dims{{1, f, 0}, {0}};
      for (int d = 2; d < copy.num_axes(); ++d) dims.push_back({d});
      dims.push_back({1, 1, f});
      copy.layout(dims);
    }
    if (pick(0, 3) == 0) {
      copy.widen(rng_.choose(std::vector<DataType>{f32, f64, i16, i32, i64, u16}));
    }
  }

  // Pads the operands of a product with zeros.
  void pad(StageRef st) {
    if (st.id() >= s_.dag().size()) return;
    std::vector<int> read;
    for (const Access& a : s_.dag().info(st.id()).reads) {
      if (std::find(read.begin(), read.end(), a.producer) == read.end()) {
        read.push_back(a.producer);
      }
    }
    for (int producer : read) sync(s_.stage(producer).cache_read({st}));
    std::vector<StageRef::Padding> axes;
    for (Loop l : st.all_axes()) axes.push_back({l, pick(1, 3), pick(1, 3)});
    for (Loop l : st.all_reduce_axes()) axes.push_back({l, pick(1, 3), pick(1, 3)});
    sync(st.pad(axes));
  }

  // Throws where the steps cannot be lowered.
  void lower_all() const {
    std::vector<Tensor> args = s_.dag().placeholders();
    for (const Tensor& t : s_.dag().outputs()) args.push_back(t);
    lower(s_, args);
  }

  Schedule s_;
  Rng& rng_;
  Loops loops_;
};

}  // namespace

Schedule random_schedule(Schedule from, Rng& rng) {
  return ScheduleDrawer(std::move(from), rng).run();
}

}  // namespace heddle::selftest
